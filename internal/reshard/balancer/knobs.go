package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/shard/ratekeeper"
)

// ErrKnob means that there is no knob of a name, or that it cannot have a value: the text says what it can have.
var ErrKnob = errors.New("balancer: bad knob")

// Knob is something that the loop is tuned by, for operators.
type Knob struct {
	Name, Value, Default, Help string
}

// tuning is all that the loop is tuned by.
type tuning struct {
	manual manualRelief
	knobs  distributor.Knobs
	rules  classify.Rules
	// throttle is how writers of a hot shard are limited that no change relieves.
	throttle ratekeeper.ThrottleKnobs
}

// manualRelief is whether the balancer proposes only: manual, or auto.
type manualRelief bool

// throttleOff is whether hot shards are not throttled: off, or on.
type throttleOff bool

// knobField is where a knob is.
type knobField struct {
	name, help string
	field      func(*tuning) any // a pointer
}

// knobTable is all knobs. A zero is the default of each.
var knobTable = []knobField{
	{"relief", "auto: shards are split, moved and merged by themselves; manual: cleave rebalance does it", func(t *tuning) any { return &t.manual }},
	{"shard-max-bytes", "size above which a shard is split; 0 for (10 MB + 45 x the root of all bytes) x 4, at most 500 MB", func(t *tuning) any { return &t.knobs.MaxShardBytes }},
	{"shard-min-bytes", "no split by size makes a piece smaller than half of it", func(t *tuning) any { return &t.knobs.MinShardBytes }},
	{"imbalance", "a group is hot above this many times the mean of groups", func(t *tuning) any { return &t.knobs.Imbalance }},
	{"busy-work", "a group is not hot below this share of its time", func(t *tuning) any { return &t.knobs.BusyWork }},
	{"cold-work", "pieces are merged that together take less than this share of a group's time", func(t *tuning) any { return &t.knobs.ColdWork }},
	{"move-max-fraction", "the part of the gap between two groups that a move carries at most", func(t *tuning) any { return &t.knobs.MaxFraction }},
	{"max-moves", "how many moves a round plans at most", func(t *tuning) any { return &t.knobs.MaxMoves }},
	{"max-jobs", "how many jobs are under way at most", func(t *tuning) any { return &t.knobs.MaxJobs }},
	{"max-pieces", "how many pieces a shard is split into at once at most", func(t *tuning) any { return &t.knobs.MaxPieces }},
	{"max-edge-splits", "how often a keyspace is split for load in an hour where writes come in the order of time, and reads have most of the work", func(t *tuning) any { return &t.knobs.MaxEdgeSplits }},
	{"settle", "for how long a group is left alone after a change, until its effect is seen", func(t *tuning) any { return &t.knobs.Settle }},
	{"residence", "for how long a shard stays where it was moved to", func(t *tuning) any { return &t.knobs.Residence }},
	{"payback", "within this time a change must save more work than it costs", func(t *tuning) any { return &t.knobs.Payback }},
	{"copy-bytes", "how many bytes a second are copied with all of a group's time: what a move costs", func(t *tuning) any { return &t.knobs.CopyBytes }},
	{"hot-times-median", "a shard is hot above this many times the median of shards", func(t *tuning) any { return &t.rules.TimesMedian }},
	{"hot-min-work", "no shard is hot below this share of a group's time", func(t *tuning) any { return &t.rules.MinWork }},
	{"hot-key-share", "a key is the reason from this share of a shard's operations on", func(t *tuning) any { return &t.rules.KeyShare }},
	{"hot-prefix-keys", "so many hot keys that begin alike make a hot prefix", func(t *tuning) any { return &t.rules.PrefixKeys }},
	{"cold-share", "a shard is cold below this part of the mean of shards", func(t *tuning) any { return &t.rules.ColdShare }},
	{"hot-throttle", "on: writers of a hot shard that no change relieves are limited, so that its group has time for others; off: they are not", func(t *tuning) any { return (*throttleOff)(&t.throttle.Off) }},
	{"hot-throttle-tracked", "how many shards of a group are throttled at once", func(t *tuning) any { return &t.throttle.PerGroup }},
	{"hot-throttle-expire", "for how long a throttle holds that is not renewed", func(t *tuning) any { return &t.throttle.Expire }},
	{"hot-throttle-poll", "how often throttles are planned", func(t *tuning) any { return &t.throttle.Poll }},
	{"hot-queue-wait", "a group has no time for its others when one of a hundred of its writes waits this long", func(t *tuning) any { return &t.throttle.QueueWait }},
	{"hot-read-wait", "a process has no time for its other shards when requests wait this long on average before they are read", func(t *tuning) any { return &t.throttle.ReadWait }},
	{"saturated-cpu", "a machine is saturated from this share of its processors on", func(t *tuning) any { return &t.rules.CPU }},
}

const knobsNote = "knobs"

// formatKnob is the value that a pointer of the table points to.
func formatKnob(p any) string {
	switch p := p.(type) {
	case *manualRelief:
		if *p {
			return "manual"
		}
		return "auto"
	case *throttleOff:
		if *p {
			return "off"
		}
		return "on"
	case *int:
		return strconv.Itoa(*p)
	case *int64:
		return strconv.FormatInt(*p, 10)
	case *float64:
		return strconv.FormatFloat(*p, 'f', -1, 64)
	case *time.Duration:
		return p.String()
	}
	panic(fmt.Sprintf("balancer: a knob of type %T", p))
}

// parseKnob sets what a pointer of the table points to.
func parseKnob(p any, text string) (err error) {
	switch p := p.(type) {
	case *manualRelief:
		if *p = text == "manual"; !*p && text != "auto" {
			err = errors.New("neither auto nor manual")
		}
	case *throttleOff:
		if *p = text == "off"; !*p && text != "on" {
			err = errors.New("neither on nor off")
		}
	case *int:
		*p, err = strconv.Atoi(text)
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	default:
		panic(fmt.Sprintf("balancer: a knob of type %T", p))
	}
	return err
}

// withKnobs returns the tuning with values in the place of others; an empty one is the default.
func (t tuning) withKnobs(values map[string]string) (tuning, error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(knobTable, func(k knobField) bool { return k.name == name })
		if i < 0 {
			return t, fmt.Errorf("%w: there is no %q: cleave knob list has them all", ErrKnob, name)
		}
		text := values[name]
		if text == "" {
			text = formatKnob(knobTable[i].field(new(tuning)))
		}
		if err := parseKnob(knobTable[i].field(&t), text); err != nil {
			return t, fmt.Errorf("%w: %s is %q: want one such as %s", ErrKnob, name, text, defaultOf(knobTable[i].field))
		}
	}
	return t, nil
}

// defaultOf is the default of a knob.
func defaultOf(field func(*tuning) any) string {
	p, err := distributor.NewPlanner(distributor.Knobs{})
	if err != nil {
		panic(err) // the defaults go together
	}
	return formatKnob(field(&tuning{false, p.Knobs(), classify.Rules{}.WithDefaults(), ratekeeper.ThrottleKnobs{}.WithDefaults()}))
}

// Knobs returns all knobs.
func (b *Balancer) Knobs() (all []Knob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := tuning{b.tuning.manual, b.planner.Knobs(), b.tuning.rules.WithDefaults(), b.tuning.throttle.WithDefaults()}
	for _, k := range knobTable {
		all = append(all, Knob{k.name, formatKnob(k.field(&now)), defaultOf(k.field), k.help})
	}
	return all
}

// SetKnobs changes knobs, all or none, and keeps them; an empty value is the default. It fails with ErrKnob if they do not
// go together.
func (b *Balancer) SetKnobs(ctx context.Context, values map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.checkKnobs(values)
	if err != nil {
		return err
	}
	stored := map[string]string{}
	for _, k := range knobTable {
		if text := formatKnob(k.field(&t)); text != formatKnob(k.field(new(tuning))) {
			stored[k.name] = text
		}
	}
	content, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	if err := b.node.PutNotes(ctx, map[string][]byte{knobsNote: content}); err != nil {
		return err
	}
	b.tuning = t
	return b.planner.SetKnobs(t.knobs)
}

// CheckKnobs reports whether SetKnobs would accept the values. Nothing changes.
func (b *Balancer) CheckKnobs(values map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.checkKnobs(values)
	return err
}

func (b *Balancer) checkKnobs(values map[string]string) (tuning, error) {
	t, err := b.tuning.withKnobs(values)
	if err != nil {
		return t, err
	}
	if _, err := distributor.NewPlanner(t.knobs); err != nil {
		return t, fmt.Errorf("%w: %w", ErrKnob, err)
	}
	if err := t.rules.Validate(); err != nil {
		return t, fmt.Errorf("%w: %w", ErrKnob, err)
	}
	if k := t.throttle.WithDefaults(); k.PerGroup < 1 || k.Expire <= 0 || k.Poll < k.Expire || k.QueueWait <= 0 || k.ReadWait <= 0 {
		return t, fmt.Errorf("%w: hot-throttle-tracked is %d, -expire %v, -poll %v, hot-queue-wait %v and hot-read-wait %v: use positive ones, and a poll no shorter than the expiry", ErrKnob, k.PerGroup, k.Expire, k.Poll, k.QueueWait, k.ReadWait)
	}
	return t, nil
}

// loadKnobs reads the knobs that were set.
func (b *Balancer) loadKnobs(ctx context.Context) error {
	notes, err := b.node.Notes(ctx, knobsNote)
	if err != nil {
		return fmt.Errorf("read the knobs: %w", err)
	}
	var values map[string]string
	if content := notes[""]; content != nil {
		if err := json.Unmarshal(content, &values); err != nil {
			return fmt.Errorf("read the knobs: %w", err)
		}
	}
	t, err := b.checkKnobs(values)
	if err == nil {
		b.tuning = t
	}
	return err
}
