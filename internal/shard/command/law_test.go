package command

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// hintingReader is a Reader that may know which keys are plain, and reports so now and then.
type hintingReader struct {
	*memoryStore
	count int
}

func (h *hintingReader) CanSetBlindly(key []byte) bool {
	h.count++
	value, ok := h.rows[string(key)]
	if !ok {
		return h.count%2 == 0
	}
	row, err := DecodeRow([]byte(value))
	return err == nil && row.Kind == String && row.ExpiryMS == 0 && h.count%2 == 0
}

// modelRun is one life of a store beside its model.
type modelRun struct {
	t     *rapid.T
	store *memoryStore
	env   *Env
	model *model
	seq   uint64
}

func TestCommandsMeanWhatTheModelSays(t *testing.T) {
	rounds := 12 // of 100 lives each: the rarest bug seen here took 400
	switch {
	case os.Getenv("CLEAVE_SOAK") != "":
		rounds = 500
	case testing.Short():
		rounds = 2
	}
	for range rounds {
		rapid.Check(t, runLife)
		if t.Failed() {
			return
		}
	}
}

// runLife runs batches of commands, then sweeps up.
func runLife(t *rapid.T) {
	r := &modelRun{t: t, store: newMemoryStore(), model: newModel()}
	if rapid.Bool().Draw(t, "hints") {
		r.env = NewEnv(&hintingReader{memoryStore: r.store})
	} else {
		r.env = NewEnv(r.store)
	}
	for range rapid.IntRange(1, 20).Draw(t, "batches") {
		r.runBatch(rapid.IntRange(0, 10).Draw(t, "size"))
	}
	r.sweepAll()
}

// runBatch evaluates commands, compares each reply at once and all of them again
// at the end of the batch, then commits and compares the state.
func (r *modelRun) runBatch(size int) {
	r.seq++
	r.model.nowMS += rapid.Int64Range(0, 30).Draw(r.t, "ms")
	r.env.Begin(effect.Header{Seq: r.seq, ClockMS: r.model.nowMS}, r.model.nextVersion)
	var got []Reply
	var want []string
	for range size {
		c := r.drawCommand(1)
		before, version := r.env.Effects().Len(), r.env.NextVersion()
		expected, reply := r.model.do(c), r.env.Do(c)
		if _, ok := c.(*Sweep); ok {
			expected.Int, expected.More = reply.Int, reply.More // the model has no orphans
		}
		if formatOutcome(reply) != formatOutcome(expected) {
			r.t.Fatalf("%s:\ngot  %s\nwant %s", formatCommand(c), formatOutcome(reply), formatOutcome(expected))
		}
		if reply.Err != nil && (r.env.Effects().Len() != before || r.env.NextVersion() != version) {
			r.t.Fatalf("%s failed and left something", formatCommand(c))
		}
		got, want = append(got, reply), append(want, formatOutcome(expected))
	}
	for i := range got {
		if formatOutcome(got[i]) != want[i] {
			r.t.Fatalf("reply %d of the batch is now %s, was %s", i, formatOutcome(got[i]), want[i])
		}
	}
	if r.env.NextVersion() != r.model.nextVersion {
		r.t.Fatalf("next version %d, want %d", r.env.NextVersion(), r.model.nextVersion)
	}
	r.store.applyEffects(r.t, r.env.Effects().Bytes())
	r.compareState()
}

// compareState checks every row of the store against the model, and the invariants
// of the other tables.
func (r *modelRun) compareState() {
	rows, expiries, notes := r.store.tableRows(effect.Rows), map[string]string{}, r.store.tableRows(effect.Orphans)
	elements, generations := map[string]string{}, map[string]uint64{}
	keys := map[string]modelValue{}
	for position, raw := range rows {
		row, err := DecodeRow([]byte(raw))
		if err != nil {
			r.t.Fatal(err)
		}
		if row.Kind == Element {
			elements[position] = raw
			continue
		}
		v := modelValue{text: string(row.Payload), expiry: row.ExpiryMS, version: row.Version}
		switch row.Kind {
		case Hash:
			v.fields, generations[position] = map[string]string{}, row.Generation
		case Chunked:
			v.text, generations[position] = string(make([]byte, row.Length)), row.Generation
		}
		if row.ExpiryMS != 0 {
			expiries[position] = string(fmt.Appendf(nil, "%d", row.ExpiryMS))
		}
		keys[position] = v
	}
	for position, raw := range elements {
		row, _ := DecodeRow([]byte(raw))
		key, element, err := testKeyspace.Split(nil, partition.Position(position))
		if err != nil || len(element) == 0 || element[0] != fieldTag && element[0] != chunkTag {
			r.t.Fatalf("element at %q: %v", position, err)
		}
		owner := positionOf(string(key))
		if generations[string(owner)] == row.Version && element[0] == chunkTag {
			v := keys[string(owner)]
			from := int(binary.BigEndian.Uint32(element[1:])) * ChunkBytes
			v.text = v.text[:from] + string(row.Payload) + v.text[from+len(row.Payload):]
			keys[string(owner)] = v
		} else if generations[string(owner)] == row.Version {
			keys[string(owner)].fields[string(element[1:])] = string(row.Payload)
		} else if note, ok := notes[string(owner)]; !ok || string(element) <= note {
			r.t.Fatalf("the element %q is left behind and nobody will sweep it", position)
		}
	}
	if got, want := fmt.Sprint(keys), fmt.Sprint(r.model.keys); got != want {
		r.t.Fatalf("the store has\n%s\nwant\n%s", got, want)
	}
	for position, raw := range r.store.tableRows(effect.Expiry) {
		ms, err := DecodeExpiry([]byte(raw))
		if err != nil || expiries[position] != fmt.Sprint(ms) {
			r.t.Fatalf("the expiry of %q is %d, the row's %s (%v)", position, ms, expiries[position], err)
		}
		delete(expiries, position)
	}
	if len(expiries) != 0 {
		r.t.Fatalf("the table of expiries lacks %v", expiries)
	}
}

// sweepAll removes all that was left behind, a little at a time.
func (r *modelRun) sweepAll() {
	for notes := r.store.tableRows(effect.Orphans); len(notes) > 0; notes = r.store.tableRows(effect.Orphans) {
		r.seq++
		r.env.Begin(effect.Header{Seq: r.seq, ClockMS: r.model.nowMS}, r.model.nextVersion)
		for _, position := range slices.Sorted(maps.Keys(notes)) {
			if reply := r.env.Do(&Sweep{Key: partition.Position(position), Limit: 2}); reply.Err != nil {
				r.t.Fatal(reply.Err)
			}
		}
		r.store.applyEffects(r.t, r.env.Effects().Bytes())
	}
	r.compareState() // without notes, so every element has its owner now
}

// formatOutcome is a reply as text: what a caller can distinguish.
func formatOutcome(r Reply) string {
	if r.Err != nil {
		for _, err := range []error{ErrWrongType, ErrNotInteger, ErrNotFloat, ErrOverflow, ErrConflict} {
			if errors.Is(r.Err, err) {
				return err.Error()
			}
		}
		return "unexpected: " + r.Err.Error()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %d %q more=%v version=%d", r.Kind, r.Int, r.Bytes, r.More, r.Version)
	for _, i := range r.Items {
		fmt.Fprintf(&b, " [%q=%q %v %v %d]", i.Field, i.Value, i.Found, i.Kind, i.Version)
	}
	return b.String()
}

func formatCommand(c Command) string {
	switch c := c.(type) {
	case *Batch:
		s := "batch"
		for _, sub := range c.Commands {
			s += " / " + formatCommand(sub)
		}
		return s
	case *Commit:
		return fmt.Sprintf("commit %v %v %s", c.Reads, c.Ranges, formatCommand(&c.Writes))
	}
	return fmt.Sprintf("%T %+v", c, c)
}

// Few keys, fields and values, so that commands meet.
var (
	someKeys   = rapid.SampledFrom([]string{"", "a", "a\x00", "ab", "b"})
	someFields = rapid.SampledFrom([]string{"", "f", "f\x00", "g", "\xff"})
	someTexts  = rapid.SampledFrom([]string{
		"", "1", "-5", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
		"007", "+1", " 1", "-0", "0.5", "-2.25", "text", "1e1",
	})
	someDeltas = rapid.OneOf(rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64}))
	someFloats = rapid.SampledFrom([]string{"0.5", "-1.25", "1e1", "x", "", "inf"})
	someMS     = rapid.Int64Range(1, 60)
	// someEdges are offsets around those at which a value is kept in another way.
	someEdges = rapid.SampledFrom([]int64{1, ChunkBytes - 1, ChunkBytes, ChunkBytes + 1, 3*ChunkBytes + 5, maxPlainStringBytes - 1, maxPlainStringBytes, maxPlainStringBytes + 1, maxPlainStringBytes + 2*ChunkBytes})
)

func (r *modelRun) pickKey() partition.Position { return positionOf(someKeys.Draw(r.t, "key")) }

func (r *modelRun) pickKeys() (keys []partition.Position) {
	for range rapid.IntRange(0, 3).Draw(r.t, "keys") {
		keys = append(keys, r.pickKey())
	}
	return keys
}

func (r *modelRun) pickField() []byte { return []byte(someFields.Draw(r.t, "field")) }

func (r *modelRun) pickFields() (fields [][]byte) {
	for range rapid.IntRange(1, 3).Draw(r.t, "fields") {
		fields = append(fields, r.pickField())
	}
	return fields
}

func (r *modelRun) pickText() []byte { return []byte(someTexts.Draw(r.t, "text")) }

// pickExpiry is a time to set, sometimes one in the past.
func (r *modelRun) pickExpiry() Expiry {
	if rapid.Bool().Draw(r.t, "in") {
		return ExpireIn(someMS.Draw(r.t, "ms"))
	}
	return ExpireAt(max(1, r.model.nowMS+rapid.Int64Range(-20, 60).Draw(r.t, "at")))
}

// drawCommand makes any command. Depth bounds batches in batches.
func (r *modelRun) drawCommand(depth int) Command {
	kinds := []func() Command{r.drawText, r.drawText, r.drawHash, r.drawHash, r.drawKeys, r.drawExpiry}
	if depth > 0 {
		kinds = append(kinds, func() Command { return r.drawGroup(depth - 1) })
	}
	c := rapid.SampledFrom(kinds).Draw(r.t, "kind")()
	if r.isTooFine(c) {
		return &Get{Key: r.pickKey()}
	}
	return c
}

// isTooFine keeps additions of fractions away from numbers that have no room for
// them: rounding has a test of its own.
func (r *modelRun) isTooFine(c Command) bool {
	switch c.(type) {
	case *AddFloat, *HIncrByFloat:
	default:
		return false
	}
	fine := func(text string) bool {
		return len(text) > 15 || strings.ContainsAny(text, "e\x00") && text != "1e1"
	}
	for _, v := range r.model.keys {
		for _, text := range v.fields {
			if fine(text) {
				return true
			}
		}
		if fine(v.text) {
			return true
		}
	}
	return false
}

func (r *modelRun) drawText() Command {
	key := r.pickKey()
	if rapid.IntRange(0, 29).Draw(r.t, "long") == 0 {
		return r.drawLongText(key)
	}
	switch rapid.IntRange(0, 9).Draw(r.t, "text command") {
	case 0, 1:
		return &Set{Key: key, Value: r.pickText()}
	case 2, 3:
		return r.drawSet(key)
	case 4:
		return &Add{Key: key, Delta: someDeltas.Draw(r.t, "delta"), IfPresent: rapid.Bool().Draw(r.t, "if present")}
	case 5:
		return &AddFloat{Key: key, Delta: []byte(someFloats.Draw(r.t, "delta"))}
	case 6:
		return &Append{Key: key, Suffix: r.pickText()}
	case 7:
		return &Strlen{Key: key}
	case 8:
		index := rapid.Int64Range(-25, 25)
		return &GetRange{Key: key, Start: index.Draw(r.t, "start"), End: index.Draw(r.t, "end")}
	}
	return &SetRange{Key: key, Offset: rapid.Int64Range(0, 9).Draw(r.t, "offset"), Value: r.pickText()}
}

// drawLongText makes commands about values that are kept in chunks.
func (r *modelRun) drawLongText(key partition.Position) Command {
	edge := someEdges.Draw(r.t, "edge")
	switch rapid.IntRange(0, 5).Draw(r.t, "long command") {
	case 0, 1:
		return &Append{Key: key, Suffix: []byte(strings.Repeat("chunk", int(edge)/5))}
	case 2, 3:
		return &SetRange{Key: key, Offset: edge, Value: r.pickText()}
	case 4:
		return &Set{Key: key, Value: []byte(strings.Repeat("value", int(edge)/5))}
	}
	return &GetRange{Key: key, Start: edge - 9, End: edge + rapid.Int64Range(-20, 2*ChunkBytes).Draw(r.t, "end")}
}

func (r *modelRun) drawSet(key partition.Position) *Set {
	c := &Set{Key: key, Value: r.pickText(), ReturnOld: rapid.Bool().Draw(r.t, "old")}
	c.Condition = Condition(rapid.IntRange(0, int(IfVersion)).Draw(r.t, "if"))
	if c.Condition == IfVersion {
		c.Version = r.pickVersion(key)
	}
	switch rapid.IntRange(0, 3).Draw(r.t, "expiry") {
	case 0:
		c.Expiry = KeepExpiry()
	case 1:
		c.Expiry = r.pickExpiry()
	}
	return c
}

// pickVersion is the one that a key has or had, or another.
func (r *modelRun) pickVersion(key partition.Position) uint64 {
	v, ok := r.model.getLive(key)
	switch rapid.IntRange(0, 4).Draw(r.t, "version") {
	case 0:
		return rapid.Uint64Range(0, r.model.nextVersion).Draw(r.t, "other version")
	case 1:
		return r.model.keys[string(key)].version
	}
	if !ok {
		return 0
	}
	return v.version
}

func (r *modelRun) drawHash() Command {
	key := r.pickKey()
	switch rapid.IntRange(0, 13).Draw(r.t, "hash command") {
	case 0, 1, 2:
		c := &HSet{Key: key, OnlyNew: rapid.IntRange(0, 3).Draw(r.t, "new") == 0}
		for _, field := range r.pickFields() {
			c.Fields = append(c.Fields, FieldValue{field, r.pickText()})
		}
		return c
	case 3, 4:
		return &HDel{Key: key, Fields: r.pickFields()}
	case 5:
		return &HGet{Key: key, Field: r.pickField()}
	case 6:
		return &HMGet{Key: key, Fields: r.pickFields()}
	case 7:
		return &HGetAll{Key: key}
	case 8:
		return &HLen{Key: key}
	case 9:
		return &HExists{Key: key, Field: r.pickField()}
	case 10:
		return &HStrlen{Key: key, Field: r.pickField()}
	case 11:
		return &HIncrBy{Key: key, Field: r.pickField(), Delta: someDeltas.Draw(r.t, "delta")}
	case 12:
		return &HIncrByFloat{Key: key, Field: r.pickField(), Delta: []byte(someFloats.Draw(r.t, "delta"))}
	}
	c := &HScan{Key: key, Limit: rapid.IntRange(1, 3).Draw(r.t, "limit")}
	if rapid.Bool().Draw(r.t, "behind") {
		c.After = r.pickField()
	}
	return c
}

func (r *modelRun) drawKeys() Command {
	switch rapid.IntRange(0, 4).Draw(r.t, "keys command") {
	case 0, 1:
		return &Delete{Keys: r.pickKeys()}
	case 2:
		return &Exists{Keys: r.pickKeys()}
	case 3:
		return &Type{Key: r.pickKey()}
	}
	c := &Range{Start: r.pickKey(), Reverse: rapid.Bool().Draw(r.t, "reverse"), Limit: rapid.IntRange(1, 4).Draw(r.t, "limit")}
	if rapid.Bool().Draw(r.t, "bounded") {
		c.End = r.pickKey()
	}
	return c
}

func (r *modelRun) drawExpiry() Command {
	key := r.pickKey()
	switch rapid.IntRange(0, 7).Draw(r.t, "expiry command") {
	case 0, 1, 2:
		flags := rapid.SampledFrom([]ExpireFlags{0, 0, ExpireNX, ExpireXX, ExpireGT, ExpireLT, ExpireXX | ExpireGT, ExpireXX | ExpireLT})
		return &Expire{Key: key, Expiry: r.pickExpiry(), Flags: flags.Draw(r.t, "flags")}
	case 3:
		return &Persist{Key: key}
	case 4:
		return &TTL{Key: key, Absolute: rapid.Bool().Draw(r.t, "absolute")}
	case 5, 6:
		return &Reap{Key: key, Version: r.pickVersion(key)}
	}
	return &Sweep{Key: key, Limit: rapid.IntRange(1, 4).Draw(r.t, "limit")}
}

// drawGroup makes a command of commands. Sub-commands are drawn before any of
// them is evaluated, so a version among them may be outdated when its turn is.
func (r *modelRun) drawGroup(depth int) Command {
	batch := Batch{}
	for range rapid.IntRange(0, 4).Draw(r.t, "commands") {
		switch c := r.drawCommand(depth).(type) {
		case *Sweep, *AddFloat, *HIncrByFloat:
		default:
			batch.Commands = append(batch.Commands, c)
		}
	}
	if rapid.Bool().Draw(r.t, "plain") {
		return &batch
	}
	c := &Commit{Writes: batch}
	for _, key := range r.pickKeys() {
		c.Reads = append(c.Reads, Read{key, r.pickVersion(key)})
	}
	if rapid.Bool().Draw(r.t, "range") {
		read := RangeRead{Start: r.pickKey(), End: r.pickKey()}
		read.Digest = r.model.digestSpan(read.Start, read.End)
		if rapid.IntRange(0, 3).Draw(r.t, "stale") == 0 {
			read.Digest.Add(r.pickKey(), 1)
		}
		c.Ranges = append(c.Ranges, read)
	}
	return c
}
