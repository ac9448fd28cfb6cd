package saga

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// memory is a journal that forgets.
type memory struct {
	mu      sync.Mutex
	records map[string]Record
}

// Memory returns a journal in memory, for tests: its sagas do not survive the process.
func Memory() Journal { return &memory{records: map[string]Record{}} }

func (m *memory) Create(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.records[r.ID]; ok {
		return ErrExists
	}
	m.records[r.ID] = clone(r)
	return nil
}

func (m *memory) Load(_ context.Context, id string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[id]
	if !ok {
		return Record{}, ErrNotFound
	}
	return clone(r), nil
}

func (m *memory) Save(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[r.ID].Revision+1 != r.Revision {
		return ErrConflict
	}
	m.records[r.ID] = clone(r)
	return nil
}

func (m *memory) Open(_ context.Context, after string, limit int) ([]Record, error) {
	return m.list(limit, func(r Record) bool { return !r.State.Ended() && r.ID > after }, byID), nil
}

func (m *memory) Ended(_ context.Context, after string, limit int) ([]Record, error) {
	return m.list(limit, func(r Record) bool { return r.State.Ended() && r.ID > after }, byID), nil
}

func (m *memory) Before(_ context.Context, endedMS int64, after Record, limit int) ([]Record, error) {
	age := func(a, b Record) int { return cmp.Or(cmp.Compare(a.EndedMS, b.EndedMS), byID(a, b)) }
	old := func(r Record) bool {
		return r.State.Ended() && r.EndedMS < endedMS && (after.ID == "" || age(r, after) > 0)
	}
	return m.list(limit, old, age), nil
}

func (m *memory) Remove(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.records[r.ID]; have.State.Ended() && have.Revision == r.Revision && have.EndedMS == r.EndedMS {
		delete(m.records, r.ID)
	}
	return nil
}

func byID(a, b Record) int { return strings.Compare(a.ID, b.ID) }

func (m *memory) list(limit int, want func(Record) bool, order func(a, b Record) int) (list []Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range maps.Values(m.records) {
		if want(r) {
			list = append(list, clone(r))
		}
	}
	slices.SortFunc(list, order)
	return list[:min(limit, len(list))]
}

// clone keeps what is in the journal apart from what callers change.
func clone(r Record) Record {
	r.Steps, r.Data = slices.Clone(r.Steps), slices.Clone(r.Data)
	return r
}
