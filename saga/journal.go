package saga

import "context"

// Journal keeps the records of sagas. What a method has returned without an error is
// durable. After another error than those that are named, a write may or may not have
// happened: who made it loads the record and looks.
type Journal interface {
	// Create stores the first record of a saga. ErrExists means that there is one of
	// that id, under way or ended.
	Create(ctx context.Context, r Record) error
	// Load returns the record of an id, or ErrNotFound.
	Load(ctx context.Context, id string) (Record, error)
	// Save stores r in the place of the record with the revision before. ErrConflict
	// means that there is another one, or none.
	Save(ctx context.Context, r Record) error
	// Open returns records of sagas that have not ended, behind an id and in the order
	// of ids: at most limit.
	Open(ctx context.Context, after string, limit int) ([]Record, error)
	// Ended returns records of sagas that have, likewise.
	Ended(ctx context.Context, after string, limit int) ([]Record, error)
	// Before returns records of sagas that ended before a time, the oldest first and
	// those of one time by id, behind another such record unless its ID is empty: at
	// most limit.
	Before(ctx context.Context, endedMS int64, after Record, limit int) ([]Record, error)
	// Remove removes a record of a saga that has ended. If there is none, or another
	// one, that is no error.
	Remove(ctx context.Context, r Record) error
}

// Together is a Journal whose transactions can have other effects too. Steps that are
// made by Transactional need one with transactions of their type.
type Together interface {
	Journal
	// SaveWith runs f in a transaction and saves the record that it returns in it, in
	// the place of old; a Revision of 0 means that there must be none yet, and ErrExists
	// that there is. If there is another one, ErrConflict, and if f returns an error,
	// that: then nothing has happened. f may be run several times, and what it
	// did with the transaction counts of the last one only.
	SaveWith(ctx context.Context, old Record, f func(tx any) (Record, error)) error
	// Fits tells whether tx is what f is given.
	Fits(tx any) bool
}
