package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/patterns/spread"
	"github.com/cleavekv/cleave/queue"
)

var blackFriday = Story{
	Name: "black-friday",
	About: "Order ids begin with the time, in a keyspace that is kept in the order of keys: all new orders go to one shard, " +
		"and the others idle. No split helps. What does, is a lever for the morning and another key for good.",
	Takes: 45 * time.Second,
	play:  playBlackFriday,
}

const (
	orderClients  = 16
	orderPipeline = 16
	// historyHours is how many hours of old orders there are, ordersPerHour how many orders an hour has, and recentHours how
	// many of the last hours have a shard of their own.
	historyHours  = 24
	recentHours   = 11
	ordersPerHour = 100
	// orderCap is how many orders a second are admitted in the emergency, so few that most go to the queue.
	orderCap = 500
	// orderSalts is the number of salts of the salted key.
	orderSalts = 16
)

// regions are where orders come from, and how many of a hundred.
var regions = []struct {
	name  string
	share int
}{{"central", 15}, {"east", 20}, {"north", 25}, {"south", 22}, {"west", 18}}

// order is a row of the shop.
type order struct {
	id     int64 // the time in milliseconds, and a number: 22 bits
	region string
}

func (o order) at() time.Time { return time.UnixMilli(o.id >> 22).UTC() }

// orderKey makes the key of an order.
type orderKey struct {
	name, keyspace string
	of             func(order) string
	cuts           []string
	// ranges are those that together have all orders of the hours from one on, each from a bound to another.
	ranges func(from time.Time) [][2]string
}

func hourOf(t time.Time) string { return t.Format("2006-01-02T15") }

// boundOf is the least id of a time.
func boundOf(t time.Time) string { return fmt.Sprintf("%019d", t.UnixMilli()<<22) }

// orderKeys are the keys that are compared in an hour: the one in use, and two that spread writes.
func orderKeys(now time.Time) []orderKey {
	byID := orderKey{
		name: "id", keyspace: "orders", of: func(o order) string { return fmt.Sprintf("%019d", o.id) },
		ranges: func(from time.Time) [][2]string { return [][2]string{{boundOf(from), boundOf(now)}} },
	}
	for h := recentHours - 1; h >= 0; h-- {
		byID.cuts = append(byID.cuts, boundOf(now.Add(-time.Duration(h)*time.Hour)))
	}
	byRegion := orderKey{
		name: "(region, hour), id", keyspace: "orders-by-region",
		of: func(o order) string { return fmt.Sprintf("%s/%s/%019d", o.region, hourOf(o.at()), o.id) },
		ranges: func(from time.Time) (all [][2]string) {
			for _, r := range regions {
				for t := from; t.Before(now); t = t.Add(time.Hour) {
					all = append(all, [2]string{r.name + "/" + hourOf(t), r.name + "/" + hourOf(t) + "0"}) // 0 comes after /
				}
			}
			return all
		},
	}
	for _, r := range regions[1:] {
		byRegion.cuts = append(byRegion.cuts, r.name)
	}
	bySalt := orderKey{
		name: "salt, id", keyspace: "orders-by-salt",
		of: func(o order) string { return fmt.Sprintf("%02d/%019d", o.id%orderSalts, o.id) },
		ranges: func(from time.Time) (all [][2]string) {
			for salt := range orderSalts {
				lead := fmt.Sprintf("%02d/", salt)
				all = append(all, [2]string{lead + boundOf(from), lead + boundOf(now)})
			}
			return all
		},
	}
	for salt := 1; salt < orderSalts; salt++ {
		bySalt.cuts = append(bySalt.cuts, fmt.Sprintf("%02d", salt))
	}
	return []orderKey{byID, byRegion, bySalt}
}

// shop is what takes orders.
type shop struct {
	*stage
	now    time.Time // the hour in which the story plays
	keys   []orderKey
	number atomic.Int64
	other  *clients // that look at payments
}

func playBlackFriday(st *stage) error {
	now := time.Now().UTC().Truncate(time.Hour)
	s := &shop{stage: st, now: now, keys: orderKeys(now)}
	st.heading("Before: the key is the order id, which begins with the time")
	for _, k := range s.keys {
		if err := s.createOrders(k); err != nil {
			return err
		}
	}
	st.say("The keyspace orders has %d shards: one for all that is older, and one for each of the last %d hours. %d clients send orders, "+
		"%d at a time. Two others look at payments, which are other keys.", len(s.keys[0].cuts)+1, len(s.keys[0].cuts), orderClients, orderPipeline)
	s.other = st.start(s.payments())
	before, err := s.sellBefore()
	if err != nil {
		return err
	}
	if err := s.overflow(); err != nil {
		return err
	}
	return s.sellAfter(before)
}

// createOrders makes the keyspace of a key, with the orders of the day before.
func (s *shop) createOrders(k orderKey) error {
	ks, err := s.createOrdered(k.keyspace, k.cuts...)
	if err != nil {
		return err
	}
	var b cleave.Batch
	for h := range historyHours {
		at := s.now.Add(-time.Duration(h+1) * time.Hour)
		for i := range ordersPerHour {
			o := order{id: at.UnixMilli()<<22 + int64(i), region: regions[i%len(regions)].name}
			b.Set(ks, []byte(k.of(o)), []byte(orderBody))
		}
	}
	return s.db.Write(s.ctx, &b)
}

// orderBody is what an order says, as long as a small one.
var orderBody = strings.Repeat("two tickets; ", 8)

// next makes an order of this moment.
func (s *shop) next(r *rand.Rand) order {
	o := order{id: time.Now().UnixMilli()<<22 | s.number.Add(1)&(1<<22-1)}
	n := r.IntN(100)
	for _, region := range regions {
		if o.region = region.name; n < region.share {
			break
		}
		n -= region.share
	}
	return o
}

// payments are clients of other keys, which a hot shard should leave alone.
func (s *shop) payments() *clients {
	return &clients{number: 2, pipeline: 1, pause: 5 * time.Millisecond, send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		key := fmt.Sprintf("payment:%d", r.IntN(10_000))
		if r.IntN(2) == 0 {
			pipe.Set(ctx, key, "paid", 0)
			return
		}
		pipe.Get(ctx, key)
	}}
}

// buyers are clients that send orders under a key.
func (s *shop) buyers(k orderKey) *clients {
	return &clients{number: orderClients, pipeline: orderPipeline, keyspace: k.keyspace, send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		pipe.Set(ctx, k.of(s.next(r)), orderBody, 0)
	}}
}

// sellBefore sells under the key in use, and shows what the store says about that.
func (s *shop) sellBefore() (measurement, error) {
	began := time.Now()
	buyers := s.start(s.buyers(s.keys[0]))
	found, err := s.awaitFinding("moving edge", s.keys[0].keyspace)
	if err != nil {
		return measurement{}, err
	}
	_, err = s.awaitDecision("decision about it", func(d *api.Decision) bool { return d.Class == found.Class })
	if err != nil {
		return measurement{}, err
	}
	m, err := s.measure(s.keys[0].keyspace, buyers, s.other)
	if err != nil {
		return m, err
	}
	if err := s.listDecisions(found.Class, began); err != nil {
		return m, err
	}
	return m, buyers.stop()
}

// overflow caps the orders, and lets a queue take what is too much.
func (s *shop) overflow() error {
	s.heading("The lever for the morning: a cap, and a queue for the rest")
	s.say("The key cannot change now. cleave cap admits %d orders a second; what is refused goes to a queue of other shards, durably, "+
		"and is written when the peak is over.", orderCap)
	queues, err := s.db.CreateKeyspace(s.ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	if err != nil {
		return err
	}
	waiting, err := queue.Open(s.ctx, s.db, queues, "orders", queue.Options{})
	if err != nil {
		return err
	}
	defer waiting.Close()
	if err := waiting.Spread(s.ctx); err != nil {
		return err
	}
	k := s.keys[0]
	before, err := s.countKeys(k.keyspace)
	if err != nil {
		return err
	}
	prefix := api.Key{}
	if err := s.act(api.PathSetCap, api.SetCap{Keyspace: k.keyspace, Prefix: &prefix, WritesPerSecond: orderCap}); err != nil {
		return err
	}
	buyers := s.buyers(k)
	var queued atomic.Int64
	buyers.refused = func(ctx context.Context, commands []redis.Cmder) error {
		messages := make([]queue.Message, len(commands))
		for i, c := range commands {
			messages[i] = queue.Message{Key: []byte(c.Args()[1].(string)), Body: []byte(c.Args()[2].(string))}
		}
		queued.Add(int64(len(messages)))
		return waiting.Publish(ctx, messages...)
	}
	s.start(buyers)
	m, err := s.measure(k.keyspace, buyers, s.other)
	if err != nil {
		return err
	}
	if err := buyers.stop(); err != nil {
		return err
	}
	if err := s.removeCaps(); err != nil {
		return err
	}
	drained, err := s.drain(waiting, k, queued.Load())
	if err != nil {
		return err
	}
	after, err := s.countKeys(k.keyspace)
	if err != nil {
		return err
	}
	if written := buyers.total() + queued.Load(); after-before != written {
		return fmt.Errorf("%d orders were accepted, and %d are there", written, after-before)
	}
	s.compare(Comparison{Columns: []string{"with the cap"}, Figures: []Figure{
		{"orders written at once, a second", []float64{m.perSecond}, asCount},
		{"orders taken by the queue, a second", []float64{m.refused}, asCount},
		{"p99 of sending orders", []float64{m.p99}, asTime},
		{"p99 of payments", []float64{m.neighborP99}, asTime},
		{"orders that were queued", []float64{float64(queued.Load())}, asCount},
		{"of these written when it was over", []float64{float64(drained)}, asCount},
	}})
	return nil
}

// drain writes what a queue holds, and returns how many orders that were.
func (s *shop) drain(waiting *queue.Queue, k orderKey, n int64) (int64, error) {
	orders, err := s.db.Keyspace(k.keyspace)
	if err != nil {
		return 0, err
	}
	done := int64(0)
	for done < n {
		s.show("writing what the queue holds")
		got, err := waiting.Receive(s.ctx, 1000)
		if err != nil {
			return done, err
		}
		var b cleave.Batch
		for _, d := range got {
			b.Set(orders, d.Key, d.Body)
		}
		if err := s.db.Write(s.ctx, &b); err != nil {
			return done, err
		}
		if err := waiting.Ack(s.ctx, got...); err != nil {
			return done, err
		}
		done += int64(len(got))
	}
	return done, nil
}

// countKeys asks how many keys a keyspace has.
func (s *shop) countKeys(keyspace string) (int64, error) {
	library := redis.NewClient(&redis.Options{Addr: s.redisAddr, MaxRetries: -1, ReadTimeout: s.pace.Patience, DisableIdentity: true, Protocol: 2})
	defer library.Close()
	var n *redis.IntCmd
	_, err := library.Pipelined(s.ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(s.ctx, "SELECT", keyspace)
		n = pipe.DBSize(s.ctx)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n.Val(), nil
}

// sellAfter sells under the keys that spread writes, and compares.
func (s *shop) sellAfter(before measurement) error {
	s.heading("For good: another key")
	s.say("The same orders under (region, hour), id: the region spreads them, and an hour of a region lies together. And under a salt: "+
		"one of %d numbers that follows from the id.", orderSalts)
	all := []measurement{before}
	for _, k := range s.keys[1:] {
		buyers := s.start(s.buyers(k))
		if err := s.rest(s.pace.Measure/3, "sending orders under "+k.name); err != nil {
			return err
		}
		m, err := s.measure(k.keyspace, buyers, s.other)
		if err != nil {
			return err
		}
		if err := buyers.stop(); err != nil {
			return err
		}
		all = append(all, m)
	}
	c := Comparison{Figures: []Figure{
		figureOf("busiest shard's part of writes", asPercent, all, func(m *measurement) float64 { return m.busiest }),
		figureOf("busiest shard, times the mean", asFactor, all, func(m *measurement) float64 { return m.overMean }),
		figureOf("shards that are written", asCount, all, func(m *measurement) float64 { return float64(m.written) }),
		figureOf("busiest group's part of writes", asPercent, all, func(m *measurement) float64 { return m.group }),
		figureOf("orders a second", asCount, all, func(m *measurement) float64 { return m.perSecond }),
		figureOf("p99 of sending orders", asTime, all, func(m *measurement) float64 { return m.p99 }),
		figureOf("p99 of payments", asTime, all, func(m *measurement) float64 { return m.neighborP99 }),
	}}
	ranges, times := Figure{Name: "ranges a dashboard reads", format: asCount}, Figure{Name: "time of that, 24 hours", format: asTime}
	for _, k := range s.keys {
		c.Columns = append(c.Columns, k.name)
		n, took, err := s.readDashboard(k)
		if err != nil {
			return err
		}
		ranges.Values, times.Values = append(ranges.Values, float64(n)), append(times.Values, took.Seconds())
	}
	c.Figures = append(c.Figures, ranges, times)
	s.compare(c)
	s.print("\n")
	s.line("Writes by shard, in the order of keys:")
	for i := range all {
		s.line("  %-18s  %s", c.Columns[i], drawShares(all[i].shares))
	}
	s.print("\n")
	s.say("All of it ran on one machine, whose processors clients and server share: the shares are what another key changes. "+
		"How many orders that brings depends on the processors, disks and machines of the groups, here %s: %.2f and %.2f times as many.",
		describeMachine(s.db), all[1].perSecond/all[0].perSecond, all[2].perSecond/all[0].perSecond)
	return nil
}

// readDashboard reads all orders of the day before, as a dashboard does, and returns the ranges that it took.
func (s *shop) readDashboard(k orderKey) (ranges int, took time.Duration, err error) {
	library := redis.NewClient(&redis.Options{Addr: s.redisAddr, MaxRetries: -1, ReadTimeout: s.pace.Patience, DisableIdentity: true, Protocol: 2})
	defer library.Close()
	limit := strconv.Itoa(historyHours * ordersPerHour)
	read := func() (rows int, err error) {
		commands, err := library.Pipelined(s.ctx, func(pipe redis.Pipeliner) error {
			pipe.Do(s.ctx, "SELECT", k.keyspace)
			for _, r := range k.ranges(s.now.Add(-historyHours * time.Hour)) {
				pipe.Do(s.ctx, "CLEAVE.RANGE", "["+r[0], "("+r[1], "LIMIT", limit, "WITHVALUES")
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		ranges = len(commands) - 1
		for _, c := range commands[1:] {
			reply := c.(*redis.Cmd).Val().([]any)
			rows += len(reply[1].([]any)) / 2
		}
		return rows, nil
	}
	for range 5 { // the fastest: the first ones fill caches
		began := time.Now()
		rows, err := read()
		if err != nil {
			return 0, 0, err
		}
		if rows != historyHours*ordersPerHour {
			return 0, 0, fmt.Errorf("the dashboard has %d orders under %s, want %d", rows, k.name, historyHours*ordersPerHour)
		}
		if d := time.Since(began); took == 0 || d < took {
			took = d
		}
	}
	return ranges, took, nil
}

// describeMachine says what a store has to spread its work over.
func describeMachine(db *cleave.DB) string {
	groups, err := spread.GroupsByStore(db)
	if err != nil {
		return "one process"
	}
	return fmt.Sprintf("%d groups on one disk", len(groups))
}
