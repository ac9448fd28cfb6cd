package saga

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Journal keeps the records of sagas. What a method has returned without an error is
// durable. After another error than those that are named, a write may or may not have
// happened: the caller loads the record and looks.
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
	// Fits reports whether tx is what f is given.
	Fits(tx any) bool
}

// memoryJournal is a journal that forgets.
type memoryJournal struct {
	mu      sync.Mutex
	records map[string]Record
}

// NewMemoryJournal returns a journal in memory, for tests: its sagas do not survive the process.
func NewMemoryJournal() Journal { return &memoryJournal{records: map[string]Record{}} }

func (m *memoryJournal) Create(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.records[r.ID]; ok {
		return ErrExists
	}
	m.records[r.ID] = cloneRecord(r)
	return nil
}

func (m *memoryJournal) Load(_ context.Context, id string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[id]
	if !ok {
		return Record{}, ErrNotFound
	}
	return cloneRecord(r), nil
}

func (m *memoryJournal) Save(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[r.ID].Revision+1 != r.Revision {
		return ErrConflict
	}
	m.records[r.ID] = cloneRecord(r)
	return nil
}

func (m *memoryJournal) Open(_ context.Context, after string, limit int) ([]Record, error) {
	return m.listRecords(limit, func(r Record) bool { return !r.State.Ended() && r.ID > after }, compareIDs), nil
}

func (m *memoryJournal) Ended(_ context.Context, after string, limit int) ([]Record, error) {
	return m.listRecords(limit, func(r Record) bool { return r.State.Ended() && r.ID > after }, compareIDs), nil
}

func (m *memoryJournal) Before(_ context.Context, endedMS int64, after Record, limit int) ([]Record, error) {
	age := func(a, b Record) int { return cmp.Or(cmp.Compare(a.EndedMS, b.EndedMS), compareIDs(a, b)) }
	old := func(r Record) bool {
		return r.State.Ended() && r.EndedMS < endedMS && (after.ID == "" || age(r, after) > 0)
	}
	return m.listRecords(limit, old, age), nil
}

func (m *memoryJournal) Remove(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.records[r.ID]; have.State.Ended() && have.Revision == r.Revision && have.EndedMS == r.EndedMS {
		delete(m.records, r.ID)
	}
	return nil
}

func compareIDs(a, b Record) int { return strings.Compare(a.ID, b.ID) }

func (m *memoryJournal) listRecords(limit int, want func(Record) bool, order func(a, b Record) int) (list []Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range maps.Values(m.records) {
		if want(r) {
			list = append(list, cloneRecord(r))
		}
	}
	slices.SortFunc(list, order)
	return list[:min(limit, len(list))]
}

// cloneRecord keeps what is in the journal apart from what callers change.
func cloneRecord(r Record) Record {
	r.Steps, r.Data = slices.Clone(r.Steps), slices.Clone(r.Data)
	return r
}
