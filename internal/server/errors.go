package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// redactRows is an error without the keys and values of rows that the client may not be allowed to read.
func redactRows(err error) error {
	var unique *cleave.UniqueError
	if errors.As(err, &unique) {
		return redis.Error(fmt.Sprintf("ERR another row has the same entry in a unique index: index %q of keyspace %q", unique.Index, unique.Keyspace))
	}
	return err
}

// clientError is an error of package cleave as clients see it.
func clientError(err error) error {
	var known redis.Error
	err = redactRows(err)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, cleave.ErrOverflow):
		return command.ErrOverflow
	case errors.Is(err, cleave.ErrNotInteger):
		return command.ErrNotInteger
	case errors.Is(err, cleave.ErrWrongType):
		return command.ErrWrongType
	}
	text := strings.TrimPrefix(err.Error(), "cleave: ")
	if errors.Is(err, cleave.ErrIndexBuilding) {
		text = strings.TrimSuffix(text, "use Wait") + "CLEAVE.INDEX INFO says when it is ready"
	}
	return redis.Error("ERR " + text)
}
