package main

import (
	"context"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// search answers what the rows of a line cannot, whatever their shard key is: which
// cabins has this customer bought, and which sailings go there?
//
// The history is a projection of the cabins' rows. It follows them, so that selling
// costs what it did; a customer that has just bought waits for it. Sailings change rarely and are
// searched by many, so their index commits with them, and a search never misses one.
type search struct {
	sailings *cleave.Keyspace
	routes   *cleave.Index
	history  *cleave.Index
}

// openSearch opens the indexes of a line, and waits until they have all that is there.
func openSearch(ctx context.Context, l *line) (*search, error) {
	s := new(search)
	var err error
	if s.sailings, err = l.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "sailings"}); err != nil {
		return nil, err
	}
	s.routes, err = l.db.OpenIndex(ctx, cleave.IndexOptions{Name: "routes", Keyspace: s.sailings, Columns: "origin, target, day", Stored: []string{"ship"}})
	if err != nil {
		return nil, err
	}
	s.history, err = l.db.OpenIndex(ctx, cleave.IndexOptions{
		Name: "history", Keyspace: l.rows, Mode: cleave.Asynchronous, Function: "sold", Version: "1", Extract: l.soldTo,
	})
	if err != nil {
		return nil, err
	}
	if err := s.routes.Wait(ctx); err != nil {
		return nil, err
	}
	return s, s.history.Wait(ctx)
}

// soldTo makes an entry of the row of a cabin that was sold: the customer, and what it
// is. The other rows have none.
func (l *line) soldTo(r cleave.IndexRow) ([]cleave.IndexEntry, error) {
	customer, isSold := strings.CutPrefix(string(r.Value), sold(""))
	parts, err := l.layout.Decode(r.Key)
	if err != nil || !isSold {
		return nil, nil
	}
	row, _ := parts.Value("row")
	sailing, _ := parts.Value("sailing")
	number, _ := parts.Value("cabin")
	if row != cabinRow {
		return nil, nil
	}
	return []cleave.IndexEntry{{Entry: key.Tuple{customer, sailing, number}}}, nil
}

// bought returns the cabins that a customer has bought, by sailing.
func (s *search) bought(ctx context.Context, customer string) (cabins []cabin, err error) {
	for item, err := range s.history.Scan(ctx, cleave.IndexScanOptions{Prefix: key.Tuple{customer}, Fresh: true}) {
		if err != nil {
			return nil, err
		}
		sailing, _ := item.Entry[1].(string)
		number, _ := item.Entry[2].(string)
		cabins = append(cabins, cabin{sailing, number})
	}
	return cabins, nil
}

// announce adds a sailing, or changes it.
func (s *search) announce(ctx context.Context, sailing, origin, target, day, ship string) error {
	_, err := s.sailings.HSet(ctx, []byte(sailing),
		cleave.Field{Name: []byte("origin"), Value: []byte(origin)}, cleave.Field{Name: []byte("target"), Value: []byte(target)},
		cleave.Field{Name: []byte("day"), Value: []byte(day)}, cleave.Field{Name: []byte("ship"), Value: []byte(ship)})
	return err
}

// between returns the sailings from one port to another from a day on, each with its
// day and ship.
func (s *search) between(ctx context.Context, origin, target, since string) (found []string, err error) {
	o := cleave.IndexScanOptions{
		From: key.Tuple{origin, target, since},
		To:   key.Tuple{origin, target + "\x00"}, // the next name that there can be
	}
	for item, err := range s.routes.Scan(ctx, o) {
		if err != nil {
			return nil, err
		}
		day, _ := item.Entry[2].(string)
		found = append(found, string(item.Key)+" "+day+" "+string(item.Fields[0].Value))
	}
	return found, nil
}
