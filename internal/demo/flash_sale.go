package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hotkey/backoff"
	"github.com/cleavekv/cleave/hotkey/redishook"
	"github.com/cleavekv/cleave/internal/ops/api"
)

var flashSale = Story{
	Name: "flash-sale",
	About: "One tenant of a hundred begins a sale: its keys are hot, the store splits their shard and moves a piece. Then one product " +
		"is what all want: no split divides one key, and the store says so.",
	Takes: 60 * time.Second,
	play:  playFlashSale,
}

const (
	tenants    = 100
	saleTenant = 42
	// cartsOfTenant is how many keys a tenant has.
	cartsOfTenant = 20_000
	saleClients   = 16
	salePipeline  = 8
	// stockPieces is over how many keys the stock is spread, and stockCap how many takings a second the cap admits.
	stockPieces = 16
	stockCap    = 2000
	stockKey    = "tenant-042/stock/4711"
)

// market is what the tenants share.
type market struct {
	*stage
	others *clients // of all tenants but the one with the sale
}

func playFlashSale(st *stage) error {
	m := &market{stage: st}
	st.heading("A tenant begins a sale")
	// Each third of the tenants has a shard.
	if _, err := st.createOrdered("shops", "tenant-034", "tenant-067"); err != nil {
		return err
	}
	st.say("%d tenants share the keyspace shops. Two clients work for all of them; then %d clients fill carts of tenant-%03d alone, %s of them.",
		tenants, saleClients, saleTenant, asCount(cartsOfTenant))
	m.others = st.start(&clients{number: 2, pipeline: 1, pause: 5 * time.Millisecond, keyspace: "shops", send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		pipe.Set(ctx, cartKey(r.IntN(saleTenant), r), cartBody, 0)
	}})
	if err := m.relieve(); err != nil {
		return err
	}
	return m.nameKey()
}

var cartBody = strings.Repeat("one more; ", 6)

func cartKey(tenant int, r *rand.Rand) string {
	return fmt.Sprintf("tenant-%03d/cart/%05d", tenant, r.IntN(cartsOfTenant))
}

// relieve lets the store split and move the range of a tenant.
func (m *market) relieve() error {
	// Only found, at first: the store is quicker than a measurement takes.
	if err := m.setRelief("manual"); err != nil {
		return err
	}
	carts := m.start(&clients{number: saleClients, pipeline: salePipeline, keyspace: "shops", send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		pipe.Set(ctx, cartKey(saleTenant, r), cartBody, 0)
	}})
	if _, err := m.awaitFinding("hot range", "shops"); err != nil {
		return err
	}
	before, err := m.measure("shops", carts, m.others)
	if err != nil {
		return err
	}
	m.say("So far it was only to look (cleave knob set relief=manual). Now it may act (relief=auto):")
	if err := m.setRelief("auto"); err != nil {
		return err
	}
	for _, change := range []string{"split", "move"} {
		_, err := m.awaitDecision(change+" to be done", func(d *api.Decision) bool {
			return d.Change == change && (d.Outcome == "done" || d.Outcome == "helped" || d.Outcome == "did not help")
		})
		if err != nil {
			return err
		}
	}
	after, err := m.measure("shops", carts, m.others)
	if err != nil {
		return err
	}
	both := []measurement{before, after}
	m.compare(Comparison{Columns: []string{"before", "after"}, Figures: []Figure{
		figureOf("busiest shard's part of writes", asPercent, both, func(m *measurement) float64 { return m.busiest }),
		figureOf("busiest group's part of writes", asPercent, both, func(m *measurement) float64 { return m.group }),
		figureOf("shards that are written", asCount, both, func(m *measurement) float64 { return float64(m.written) }),
		figureOf("carts filled a second", asCount, both, func(m *measurement) float64 { return m.perSecond }),
		figureOf("p99 of the sale", asTime, both, func(m *measurement) float64 { return m.p99 }),
		figureOf("p99 of other tenants", asTime, both, func(m *measurement) float64 { return m.neighborP99 }),
	}})
	return carts.stop()
}

// nameKey shows what the store says about one key, and tries what it advises.
func (m *market) nameKey() error {
	m.heading("One product is what all want")
	m.say("Now %d clients take from the stock of one product, one key, as fast as they can.", saleClients)
	takers := m.start(m.takers("shops", func(*rand.Rand) string { return stockKey }))
	found, err := m.awaitFinding("hot key", "shops")
	if err != nil {
		return err
	}
	_, err = m.awaitDecision("decision about the key", func(d *api.Decision) bool {
		return d.Class == found.Class && d.Change == "keep" && d.Key != nil && strings.Contains(d.Reason, "one key")
	})
	if err != nil {
		return err
	}
	plain, err := m.measure("shops", takers, m.others)
	if err != nil {
		return err
	}
	if err := takers.stop(); err != nil {
		return err
	}
	capped, err := m.takeCapped()
	if err != nil {
		return err
	}
	spread, err := m.takeSpread()
	if err != nil {
		return err
	}
	all := []measurement{plain, capped, spread}
	m.compare(Comparison{Columns: []string{"one key", "one key, capped", fmt.Sprintf("%d keys", stockPieces)}, Figures: []Figure{
		figureOf("busiest shard's part of writes", asPercent, all, func(m *measurement) float64 { return m.busiest }),
		figureOf("busiest group's part of writes", asPercent, all, func(m *measurement) float64 { return m.group }),
		figureOf("taken a second", asCount, all, func(m *measurement) float64 { return m.perSecond }),
		figureOf("p99 of taking", asTime, all, func(m *measurement) float64 { return m.p99 }),
		figureOf("p99 of other tenants", asTime, all, func(m *measurement) float64 { return m.neighborP99 }),
	}})
	return nil
}

// takers are clients that take one piece from a stock.
func (m *market) takers(keyspace string, key func(r *rand.Rand) string) *clients {
	return &clients{number: saleClients, pipeline: salePipeline, keyspace: keyspace, send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		pipe.Decr(ctx, key(r))
	}}
}

// takeCapped caps the key, and lets the clients obey when they are refused.
func (m *market) takeCapped() (c measurement, err error) {
	m.say("A cap of %s a second, for the sake of the others; clients wait in a queue for as long as the server says (hotkey/backoff).", asCount(stockCap))
	prefix := api.Key(stockKey)
	if err := m.act(api.PathSetCap, api.SetCap{Keyspace: "shops", Prefix: &prefix, WritesPerSecond: stockCap}); err != nil {
		return c, err
	}
	q, err := backoff.New(backoff.Options{})
	if err != nil {
		return c, err
	}
	takers := m.takers("shops", func(*rand.Rand) string { return stockKey })
	takers.pipeline = 1 // a queue is for single commands: part of a pipeline may be done
	if takers.hook, err = redishook.NewBackoff(q); err != nil {
		return c, err
	}
	m.start(takers)
	if c, err = m.measure("shops", takers, m.others); err != nil {
		return c, err
	}
	if err := takers.stop(); err != nil {
		return c, err
	}
	return c, m.removeCaps()
}

// takeSpread spreads the stock over several keys, and checks that they add up to what was taken.
func (m *market) takeSpread() (c measurement, err error) {
	m.say("And the stock in %d keys of a hash keyspace, of which a client takes any: what is left is their sum.", stockPieces)
	stocks, err := m.db.CreateKeyspace(m.ctx, cleave.KeyspaceOptions{Name: "stocks"})
	if err != nil {
		return c, err
	}
	pieceKey := func(n int) string { return fmt.Sprintf("%s/%02d", stockKey, n) }
	takers := m.start(m.takers("stocks", func(r *rand.Rand) string { return pieceKey(r.IntN(stockPieces)) }))
	if c, err = m.measure("stocks", takers, m.others); err != nil {
		return c, err
	}
	if err := takers.stop(); err != nil {
		return c, err
	}
	sum := int64(0)
	for n := range stockPieces {
		value, err := stocks.Get(m.ctx, []byte(pieceKey(n)))
		if err != nil {
			return c, err
		}
		piece, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return c, err
		}
		sum += piece
	}
	if -sum != takers.total() {
		return c, fmt.Errorf("%d pieces were taken, and the keys say %d", takers.total(), -sum)
	}
	return c, nil
}
