package advisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/partition"
)

// Query is a kind of statement that a program sends, as a line of a query file has it.
type Query struct {
	// Op is what it does: select, insert, update or delete. Others count as select.
	Op string `json:"op"`
	// Filter has the columns that it asks for: {"user_id": 7} by one value, {"ts": {"ge": 1}} by a
	// range of them.
	Filter map[string]json.RawMessage `json:"filter"`
	// Columns is a short form of Filter: columns that are asked for by one value.
	Columns []string `json:"columns"`
	// Set are the columns that an update writes.
	Set []string `json:"set"`
	// Txn is the same for statements of one transaction.
	Txn string `json:"txn"`
	// Count is how often it is sent. Default 1.
	Count int64 `json:"count"`
}

// ErrQuery means that a line of a query file is not a query.
var ErrQuery = errors.New("advise: bad query")

// maxQueries bounds the queries of an analysis. They are kept in memory.
const maxQueries = 1 << 20

// ReadQueries reads JSON objects, one behind the other, each a [Query].
func ReadQueries(r io.Reader) ([]Query, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var queries []Query
	for {
		var q Query
		err := d.Decode(&q)
		switch {
		case errors.Is(err, io.EOF) && len(queries) == 0:
			return nil, fmt.Errorf("%w: there are none", ErrQuery)
		case errors.Is(err, io.EOF):
			return queries, nil
		case err != nil:
			return nil, fmt.Errorf("%w %d: %w", ErrQuery, len(queries)+1, err)
		case q.Count < 0 || len(queries) == maxQueries:
			return nil, fmt.Errorf("%w %d: a count below 0, or more than %d queries", ErrQuery, len(queries)+1, maxQueries)
		}
		if q.Count == 0 {
			q.Count = 1
		}
		queries = append(queries, q)
	}
}

// columnNames returns all columns that a query names.
func (q *Query) columnNames() []string {
	names := slices.Concat(q.Columns, q.Set)
	for name := range q.Filter {
		names = append(names, name)
	}
	return names
}

// byValue returns the value that a query wants of a column; the text is empty in the short form.
func (q *Query) byValue(name string) (value string, ok bool) {
	if v, found := q.Filter[name]; found && !isRange(v) {
		return string(v), true
	}
	return "", slices.Contains(q.Columns, name)
}

// byRange reports whether a query wants a range of a column's values.
func (q *Query) byRange(name string) bool {
	v, found := q.Filter[name]
	return found && isRange(v)
}

func isRange(v json.RawMessage) bool { return strings.HasPrefix(strings.TrimSpace(string(v)), "{") }

// QueryFit is how well a key suits the queries: shares of all that were sent.
type QueryFit struct {
	// Single queries ask one shard, Multi several that are known, and Scatter all of them. Inserts
	// know all columns and are not counted.
	Single  float64 `json:"single"`
	Multi   float64 `json:"multi"`
	Scatter float64 `json:"scatter"`
	// KeyUpdates is the share of updates that write a column of the key, so that the row has to move.
	KeyUpdates float64 `json:"key_updates"`
	// CrossShard is the share of transactions that ask for several partitions; -1 if no query is part
	// of one or has values.
	CrossShard float64 `json:"cross_shard"`
}

// reach is how many shards a query asks.
type reach uint8

const (
	single reach = iota
	multi
	scatter
)

// matchQueries finds how well a candidate suits the queries.
func (c *candidate) matchQueries(queries []Query, nameOf map[string]string) QueryFit {
	var counts [3]float64
	var all, updates, moves float64
	partitionsOf := map[string]map[string]bool{}
	for i := range queries {
		q := &queries[i]
		n := float64(q.Count)
		if q.Op == "update" {
			updates += n
			if slices.ContainsFunc(c.layout.Columns(), func(name string) bool { return slices.Contains(q.Set, nameOf[name]) }) {
				moves += n
			}
		}
		if q.Op != "insert" {
			counts[c.reachOf(q, nameOf)] += n
			all += n
		}
		if q.Txn != "" && len(q.Filter) > 0 {
			if partitionsOf[q.Txn] == nil {
				partitionsOf[q.Txn] = map[string]bool{}
			}
			partitionsOf[q.Txn][c.partitionOf(q, nameOf)] = true
		}
	}
	fit := QueryFit{Single: 1, CrossShard: -1}
	if all > 0 {
		// A partition that spans shards makes several of one.
		local := counts[single] * c.place.locality
		fit.Single, fit.Multi, fit.Scatter = local/all, (counts[multi]+counts[single]-local)/all, counts[scatter]/all
	}
	if updates > 0 {
		fit.KeyUpdates = moves / updates
	}
	if len(partitionsOf) > 0 {
		cross := 0.0
		for _, partitions := range partitionsOf {
			if len(partitions) > 1 {
				cross++
			}
		}
		fit.CrossShard = cross / float64(len(partitionsOf))
	}
	return fit
}

// reachOf finds how many shards a query asks. One that has a value for each column of the partition
// asks one. A time bucket whose column is given by a range, and a salt that is picked, make several
// known keys of one. In a range keyspace the first fields alone name a span.
func (c *candidate) reachOf(q *Query, nameOf map[string]string) reach {
	found := single
	for i, f := range c.layout.Fields() {
		if !f.Partition {
			break
		}
		name := nameOf[f.Column]
		_, byValue := q.byValue(name)
		switch {
		case f.Column == "":
			found = multi
		case byValue:
		case f.Bucket != 0 && q.byRange(name), f.Salts != 0:
			found = multi
		case f.Hash && i == 0:
			return scatter // a hash without its column names no span
		case c.kind.String() == "range" && (i > 0 || q.byRange(name)):
			return multi
		default:
			return scatter
		}
	}
	return found
}

// partitionOf returns the values that a query has for the partition, as one text.
func (c *candidate) partitionOf(q *Query, nameOf map[string]string) string {
	var b strings.Builder
	for _, f := range c.layout.Fields() {
		if f.Partition && f.Column != "" {
			v, _ := q.byValue(nameOf[f.Column])
			fmt.Fprintf(&b, "%q,", v)
		}
	}
	return b.String()
}

// wholePartitionShare returns the share of queries that ask for a range of a column within one partition of a range
// keyspace, in which rows are not in that order, so that all of it is read.
func (c *candidate) wholePartitionShare(queries []Query, nameOf map[string]string) float64 {
	if c.kind == partition.Hash {
		return 0 // how rows of a partition are kept there is up to the program
	}
	var whole, all float64
	for i := range queries {
		q := &queries[i]
		if q.Op == "insert" {
			continue
		}
		all += float64(q.Count)
		if c.reachOf(q, nameOf) == single && c.readsWhole(q, nameOf) {
			whole += float64(q.Count)
		}
	}
	return whole / max(1, all)
}

// readsWhole reports whether a query for a range finds it in no stretch of a partition.
func (c *candidate) readsWhole(q *Query, nameOf map[string]string) bool {
	ranged := false
	for name := range q.Filter {
		ranged = ranged || q.byRange(name)
	}
	for _, f := range c.layout.Fields() {
		name := nameOf[f.Column]
		if f.Partition {
			continue
		}
		if q.byRange(name) {
			return false
		}
		if _, given := q.byValue(name); !given {
			break
		}
	}
	return ranged
}
