package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave/internal/api"
)

// param is a name that may be in a query.
type param struct {
	name string
	// kind is string, key, integer or boolean.
	kind    string
	meaning string
}

// query is what a request asks for: the parameters that its path knows, each at most
// once.
type query struct {
	values url.Values
	id     string // from the path
}

// readQuery takes the query of a request apart.
func readQuery(r *http.Request, params []param) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query cannot be read: "+err.Error(), "")
	}
	for name, v := range values {
		if !slices.ContainsFunc(params, func(p param) bool { return p.name == name }) {
			names := ""
			for i, p := range params {
				if i > 0 {
					names += ", "
				}
				names += p.name
			}
			if names == "" {
				names = "none"
			}
			return nil, invalid("unknown parameter "+strconv.Quote(name), "this path takes: "+names)
		}
		if len(v) > 1 {
			return nil, invalid("parameter "+name+" is given twice", "give it once")
		}
	}
	return &query{values, r.PathValue("id")}, nil
}

func (q *query) has(name string) bool { return q.values.Has(name) }

func (q *query) text(name string) string { return q.values.Get(name) }

func (q *query) key(name string) (api.Key, error) {
	k, err := api.ParseKey(q.values.Get(name))
	if err != nil {
		return nil, invalid(err.Error(), "")
	}
	return k, nil
}

// number reads a number that is not negative, def if there is none.
func (q *query) number(name string, def uint64) (uint64, error) {
	if !q.has(name) {
		return def, nil
	}
	n, err := strconv.ParseUint(q.values.Get(name), 10, 63)
	if err != nil {
		return 0, invalid("parameter "+name+" is "+strconv.Quote(q.values.Get(name)), "give a number that is not negative")
	}
	return n, nil
}

// truth reads yes or no. The name alone is yes.
func (q *query) truth(name string) (bool, error) {
	if !q.has(name) {
		return false, nil
	}
	switch q.values.Get(name) {
	case "", "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, invalid("parameter "+name+" is "+strconv.Quote(q.values.Get(name)), "give true or false")
}

// pathID is a number in the path.
func (q *query) pathID(what string) (uint64, error) {
	n, err := strconv.ParseUint(q.id, 10, 63)
	if err != nil || n == 0 {
		return 0, invalid(what+" "+strconv.Quote(q.id)+" is no id", "give a number")
	}
	return n, nil
}

// paging are the parameters of lists.
var paging = []param{
	{api.QueryLimit, "integer", "how many items the page has at most: default 200, at most 1000"},
	{api.QueryAfter, "string", "where to go on: next of the page before"},
}

// limit is how many items the page has at most.
func (q *query) limit() (int, error) {
	n, err := q.number(api.QueryLimit, api.DefaultPage)
	if err == nil && (n < 1 || n > api.MaxPage) {
		return 0, invalid("parameter limit is "+strconv.FormatUint(n, 10), "give 1 to "+strconv.Itoa(api.MaxPage))
	}
	return int(n), err
}

// page cuts the next page out of a list whose items have places that grow, or shrink if
// the newest is first. Items that come and go meanwhile do not move the others.
func page[T any](q *query, items []T, place func(i int, item T) uint64, shrink bool) (api.Page[T], error) {
	p := api.Page[T]{Items: []T{}}
	limit, err := q.limit()
	if err != nil {
		return p, err
	}
	after, err := q.number(api.QueryAfter, 0)
	if err != nil {
		return p, err
	}
	for i, item := range items {
		at := place(i, item)
		if q.has(api.QueryAfter) && (shrink && at >= after || !shrink && at <= after) {
			continue
		}
		if len(p.Items) == limit {
			last := place(i-1, items[i-1])
			p.Next = strconv.FormatUint(last, 10)
			return p, nil
		}
		p.Items = append(p.Items, item)
	}
	return p, nil
}

// inOrder is the place of an item in a list that has no better one.
func inOrder[T any](i int, _ T) uint64 { return uint64(i) }
