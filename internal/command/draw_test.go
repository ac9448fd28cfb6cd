package command

import (
	"math"
	"strings"

	"github.com/cleavekv/cleave/partition"
	"pgregory.net/rapid"
)

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
)

func (r *run) key() partition.Position { return at(someKeys.Draw(r.t, "key")) }

func (r *run) keys() (keys []partition.Position) {
	for range rapid.IntRange(0, 3).Draw(r.t, "keys") {
		keys = append(keys, r.key())
	}
	return keys
}

func (r *run) field() []byte { return []byte(someFields.Draw(r.t, "field")) }

func (r *run) fields() (fields [][]byte) {
	for range rapid.IntRange(1, 3).Draw(r.t, "fields") {
		fields = append(fields, r.field())
	}
	return fields
}

func (r *run) text() []byte { return []byte(someTexts.Draw(r.t, "text")) }

// expiry is a time to set, sometimes one in the past.
func (r *run) expiry() Expiry {
	if rapid.Bool().Draw(r.t, "in") {
		return In(someMS.Draw(r.t, "ms"))
	}
	return At(max(1, r.model.now+rapid.Int64Range(-20, 60).Draw(r.t, "at")))
}

// draw makes any command. Depth bounds batches in batches.
func (r *run) draw(depth int) Command {
	kinds := []func() Command{r.drawText, r.drawText, r.drawHash, r.drawHash, r.drawKeys, r.drawExpiry}
	if depth > 0 {
		kinds = append(kinds, func() Command { return r.drawGroup(depth - 1) })
	}
	c := rapid.SampledFrom(kinds).Draw(r.t, "kind")()
	if r.tooFine(c) {
		return &Get{Key: r.key()}
	}
	return c
}

// tooFine keeps additions of fractions away from numbers that have no room for
// them: rounding has a test of its own.
func (r *run) tooFine(c Command) bool {
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

func (r *run) drawText() Command {
	key := r.key()
	switch rapid.IntRange(0, 9).Draw(r.t, "text command") {
	case 0, 1:
		return &Set{Key: key, Value: r.text()}
	case 2, 3:
		return r.drawSet(key)
	case 4:
		return &Add{Key: key, Delta: someDeltas.Draw(r.t, "delta"), IfPresent: rapid.Bool().Draw(r.t, "if present")}
	case 5:
		return &AddFloat{Key: key, Delta: []byte(someFloats.Draw(r.t, "delta"))}
	case 6:
		return &Append{Key: key, Tail: r.text()}
	case 7:
		return &Strlen{Key: key}
	case 8:
		index := rapid.Int64Range(-25, 25)
		return &GetRange{Key: key, Start: index.Draw(r.t, "start"), End: index.Draw(r.t, "end")}
	}
	return &SetRange{Key: key, Offset: rapid.Int64Range(0, 9).Draw(r.t, "offset"), Part: r.text()}
}

func (r *run) drawSet(key partition.Position) *Set {
	c := &Set{Key: key, Value: r.text(), ReturnOld: rapid.Bool().Draw(r.t, "old")}
	c.If = Condition(rapid.IntRange(0, int(IfVersion)).Draw(r.t, "if"))
	if c.If == IfVersion {
		c.Version = r.version(key)
	}
	switch rapid.IntRange(0, 3).Draw(r.t, "expiry") {
	case 0:
		c.Expiry = Keep()
	case 1:
		c.Expiry = r.expiry()
	}
	return c
}

// version is the one that a key has or had, or another.
func (r *run) version(key partition.Position) uint64 {
	v, ok := r.model.live(key)
	switch rapid.IntRange(0, 4).Draw(r.t, "version") {
	case 0:
		return rapid.Uint64Range(0, r.model.next).Draw(r.t, "other version")
	case 1:
		return r.model.keys[string(key)].version
	}
	if !ok {
		return 0
	}
	return v.version
}

func (r *run) drawHash() Command {
	key := r.key()
	switch rapid.IntRange(0, 13).Draw(r.t, "hash command") {
	case 0, 1, 2:
		c := &HSet{Key: key, OnlyNew: rapid.IntRange(0, 3).Draw(r.t, "new") == 0}
		for _, field := range r.fields() {
			c.Fields = append(c.Fields, FieldValue{field, r.text()})
		}
		return c
	case 3, 4:
		return &HDel{Key: key, Fields: r.fields()}
	case 5:
		return &HGet{Key: key, Field: r.field()}
	case 6:
		return &HMGet{Key: key, Fields: r.fields()}
	case 7:
		return &HGetAll{Key: key}
	case 8:
		return &HLen{Key: key}
	case 9:
		return &HExists{Key: key, Field: r.field()}
	case 10:
		return &HStrlen{Key: key, Field: r.field()}
	case 11:
		return &HIncrBy{Key: key, Field: r.field(), Delta: someDeltas.Draw(r.t, "delta")}
	case 12:
		return &HIncrByFloat{Key: key, Field: r.field(), Delta: []byte(someFloats.Draw(r.t, "delta"))}
	}
	c := &HScan{Key: key, Limit: rapid.IntRange(1, 3).Draw(r.t, "limit")}
	if rapid.Bool().Draw(r.t, "behind") {
		c.After = r.field()
	}
	return c
}

func (r *run) drawKeys() Command {
	switch rapid.IntRange(0, 4).Draw(r.t, "keys command") {
	case 0, 1:
		return &Delete{Keys: r.keys()}
	case 2:
		return &Exists{Keys: r.keys()}
	case 3:
		return &Type{Key: r.key()}
	}
	c := &Range{Start: r.key(), Reverse: rapid.Bool().Draw(r.t, "reverse"), Limit: rapid.IntRange(1, 4).Draw(r.t, "limit")}
	if rapid.Bool().Draw(r.t, "bounded") {
		c.End = r.key()
	}
	return c
}

func (r *run) drawExpiry() Command {
	key := r.key()
	switch rapid.IntRange(0, 7).Draw(r.t, "expiry command") {
	case 0, 1, 2:
		flags := rapid.SampledFrom([]ExpireFlags{0, 0, ExpireNX, ExpireXX, ExpireGT, ExpireLT, ExpireXX | ExpireGT, ExpireXX | ExpireLT})
		return &Expire{Key: key, Expiry: r.expiry(), Flags: flags.Draw(r.t, "flags")}
	case 3:
		return &Persist{Key: key}
	case 4:
		return &TTL{Key: key, Absolute: rapid.Bool().Draw(r.t, "absolute")}
	case 5, 6:
		return &Reap{Key: key, Version: r.version(key)}
	}
	return &Sweep{Key: key, Limit: rapid.IntRange(1, 4).Draw(r.t, "limit")}
}

// drawGroup makes a command of commands. Sub-commands are drawn before any of
// them is evaluated, so a version among them may be outdated when its turn is.
func (r *run) drawGroup(depth int) Command {
	batch := Batch{}
	for range rapid.IntRange(0, 4).Draw(r.t, "commands") {
		switch c := r.draw(depth).(type) {
		case *Sweep, *AddFloat, *HIncrByFloat:
		default:
			batch.Commands = append(batch.Commands, c)
		}
	}
	if rapid.Bool().Draw(r.t, "plain") {
		return &batch
	}
	c := &Commit{Writes: batch}
	for _, key := range r.keys() {
		c.Reads = append(c.Reads, Read{key, r.version(key)})
	}
	if rapid.Bool().Draw(r.t, "range") {
		read := RangeRead{Start: r.key(), End: r.key()}
		read.Digest = r.model.digest(read.Start, read.End)
		if rapid.IntRange(0, 3).Draw(r.t, "stale") == 0 {
			read.Digest.Add(r.key(), 1)
		}
		c.Ranges = append(c.Ranges, read)
	}
	return c
}
