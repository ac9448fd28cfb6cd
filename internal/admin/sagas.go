package admin

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// usualJournal is the keyspace of a journal that was given no name.
const usualJournal = "sagas"

// Which part of a journal a page of sagas is of: it is the first part of its cursor.
const (
	openSagas  = "open:"
	endedSagas = "ended:"
)

func (a *Admin) sagas(ctx context.Context, q *query) (p api.Page[api.Saga], err error) {
	p.Items = []api.Saga{}
	limit, err := q.limit()
	if err != nil {
		return p, err
	}
	keep, err := sagaFilter(q)
	if err != nil {
		return p, err
	}
	name := q.text(api.QueryKeyspace)
	if name == "" {
		name = usualJournal
	}
	// To open a journal would make it.
	k, err := a.o.DB.Keyspace(name)
	if err != nil {
		p.Note = "there is no keyspace " + name + ", so nobody keeps a journal of sagas there"
		return p, nil
	}
	if k.Options().Kind != cleave.Range {
		return p, invalid("keyspace "+name+" is of kind hash: it is no journal of sagas", "name the keyspace that was given to journal.Open")
	}
	j, err := journal.Open(ctx, a.o.DB, journal.Options{Keyspace: name})
	if err != nil {
		return p, err
	}
	part, after, ok := strings.Cut(q.text(api.QueryAfter), ":")
	if q.has(api.QueryAfter) && !ok || ok && part+":" != openSagas && part+":" != endedSagas {
		return p, invalid("parameter after is "+strconv.Quote(q.text(api.QueryAfter)), "give next of the page before")
	}
	var records []saga.Record
	if part+":" == endedSagas {
		records, err = j.Ended(ctx, after, limit)
		p.Next = cursor(endedSagas, records, limit, "")
	} else {
		records, err = j.Open(ctx, after, limit)
		p.Next = cursor(openSagas, records, limit, endedSagas)
	}
	if err != nil {
		return p, err
	}
	for i := range records {
		if keep(&records[i]) {
			p.Items = append(p.Items, sagaOf(&records[i]))
		}
	}
	return p, nil
}

// cursor is where a page ends, or what comes after the last one of its part.
func cursor(part string, records []saga.Record, limit int, then string) string {
	if len(records) < limit {
		return then
	}
	return part + records[len(records)-1].ID
}

// sagaFilter is which sagas are wanted.
func sagaFilter(q *query) (func(*saga.Record) bool, error) {
	state := q.text(api.QueryState)
	switch {
	case !q.has(api.QueryState):
		return func(*saga.Record) bool { return true }, nil
	case state == "stuck":
		return func(r *saga.Record) bool { return r.Stuck != saga.NotStuck }, nil
	case slices.Contains([]string{"running", "compensating", "completed", "compensated"}, state):
		return func(r *saga.Record) bool { return r.State.String() == state }, nil
	}
	return nil, invalid("there is no state "+strconv.Quote(state), "sagas are running, compensating, completed, compensated or stuck")
}

func sagaOf(r *saga.Record) api.Saga {
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
