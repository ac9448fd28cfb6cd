package store

import (
	"errors"

	"github.com/cleavekv/cleave/internal/wal"
)

// Sync returns when everything that was committed before is on stable storage,
// whatever the durability class.
func (s *Store) Sync() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	err := s.log.Sync()
	if errors.Is(err, wal.ErrFailed) {
		s.health.die(err)
	}
	return err
}
