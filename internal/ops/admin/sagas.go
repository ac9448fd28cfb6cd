package admin

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// defaultJournal is the keyspace of a journal that was given no name.
const defaultJournal = "sagas"

// Which part of a journal a page of sagas is of: it is the first part of its cursor.
const (
	openCursorPrefix  = "open:"
	endedCursorPrefix = "ended:"
)

func (a *Admin) listSagas(ctx context.Context, q *query) (p api.Page[api.Saga], err error) {
	p.Items = []api.Saga{}
	limit, err := q.parsePageLimit()
	if err != nil {
		return p, err
	}
	keep, err := parseSagaFilter(q)
	if err != nil {
		return p, err
	}
	name := q.getString(api.QueryKeyspace)
	if name == "" {
		name = defaultJournal
	}
	// To open a journal would make it.
	k, err := a.o.DB.Keyspace(name)
	if err != nil {
		p.Note = "there is no keyspace " + name + ", so there is no journal of sagas"
		return p, nil
	}
	if k.Options().Kind != cleave.Range {
		return p, newInvalidError("keyspace "+name+" is of kind hash: it is no journal of sagas", "name the keyspace that was given to journal.Open")
	}
	j, err := journal.Open(ctx, a.o.DB, journal.Options{Keyspace: name})
	if err != nil {
		return p, err
	}
	part, after, ok := strings.Cut(q.getString(api.QueryAfter), ":")
	if q.has(api.QueryAfter) && !ok || ok && part+":" != openCursorPrefix && part+":" != endedCursorPrefix {
		return p, newInvalidError("parameter after is "+strconv.Quote(q.getString(api.QueryAfter)), "give next of the page before")
	}
	var records []saga.Record
	if part+":" == endedCursorPrefix {
		records, err = j.Ended(ctx, after, limit)
		p.Next = nextSagaCursor(endedCursorPrefix, records, limit, "")
	} else {
		records, err = j.Open(ctx, after, limit)
		p.Next = nextSagaCursor(openCursorPrefix, records, limit, endedCursorPrefix)
	}
	if err != nil {
		return p, err
	}
	for i := range records {
		if keep(&records[i]) {
			p.Items = append(p.Items, toSaga(&records[i]))
		}
	}
	return p, nil
}

// nextSagaCursor is where a page ends, or what comes after the last one of its part.
func nextSagaCursor(part string, records []saga.Record, limit int, then string) string {
	if len(records) < limit {
		return then
	}
	return part + records[len(records)-1].ID
}

// parseSagaFilter is which sagas are wanted.
func parseSagaFilter(q *query) (func(*saga.Record) bool, error) {
	state := q.getString(api.QueryState)
	switch {
	case !q.has(api.QueryState):
		return func(*saga.Record) bool { return true }, nil
	case state == "stuck":
		return func(r *saga.Record) bool { return r.Stuck != saga.NotStuck }, nil
	case slices.Contains([]string{"running", "compensating", "completed", "compensated"}, state):
		return func(r *saga.Record) bool { return r.State.String() == state }, nil
	}
	return nil, newInvalidError("there is no state "+strconv.Quote(state), "sagas are running, compensating, completed, compensated or stuck")
}

func toSaga(r *saga.Record) api.Saga {
	s := api.Saga{
		ID: r.ID, Definition: r.Definition, State: r.State.String(), Stuck: r.Stuck.String(), Steps: []string{}, At: r.At,
		Attempts: r.Attempts, Failure: r.Failure, Cause: r.Cause, Started: time.UnixMilli(r.CreatedMS).UTC(),
	}
	for _, step := range r.Steps {
		s.Steps = append(s.Steps, step.Name)
	}
	if r.EndedMS != 0 {
		ended := time.UnixMilli(r.EndedMS).UTC()
		s.Ended = &ended
	}
	return s
}
