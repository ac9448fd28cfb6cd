package admin

import (
	"context"
	"strconv"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// getTraffic returns the operations of the sample since the reader's last request.
func (a *Admin) getTraffic(_ context.Context, q *query) (api.Traffic, error) {
	if a.node.Heat() == nil {
		return api.Traffic{}, errHeatOff()
	}
	after, err := q.getUint(api.QueryAfter, 0)
	if err != nil {
		return api.Traffic{}, err
	}
	span, err := a.hotSpan(q)
	if err != nil {
		return api.Traffic{}, err
	}
	p := a.node.Traffic(after)
	t := api.Traffic{Every: node.TrafficEvery, Next: strconv.FormatUint(p.Next, 10), Lost: p.Lost, TooLong: p.TooLong, Operations: []api.Operation{}}
	for _, o := range p.Ops {
		if q.has(api.QueryKeyspace) && !span.Contains(o.Key) {
			continue
		}
		if at := a.decodePosition(o.Key); at.keyspace != "" {
			t.Operations = append(t.Operations, api.Operation{Keyspace: at.keyspace, Key: at.key, Write: o.Write, Command: o.Command, Bytes: o.Bytes})
		}
	}
	return t, nil
}
