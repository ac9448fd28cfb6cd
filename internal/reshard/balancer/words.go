package balancer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// keyText returns the key at a position, as clients write it; a position that is in no key, such as that of a slot, in
// the words of its keyspace.
func keyText(k *node.Keyspace, at []byte) string {
	if k == nil {
		return partition.Span{Start: at}.String()
	}
	key, _, err := k.Split(nil, at)
	if err != nil {
		if k.Kind == partition.Hash {
			return "slot " + strconv.Itoa(k.SlotAt(at))
		}
		return partition.Span{Start: at}.String()
	}
	return string(key)
}

// mostly is the share of reads, or of writes, from which on advice for the other is left out: then they have most of the work,
// even where each of the others takes twice as long.
const mostly = 0.8

// RemedyOf is what helps against a finding beside what the balancer does, for whoever wrote the application. The keyspace of
// the shard, nil if it is not known, and the number of groups are what it makes an example of.
func RemedyOf(f *classify.Finding, k *partition.Keyspace, groups int) string {
	switch f.Class {
	case classify.HotKey:
		const ofReads = "let clients cache it (CLIENT TRACKING), or keep copies of it in several keys"
		const ofWrites = "spread it over several keys (package counter, or a salt) and add them up when it is read"
		switch {
		case f.Reads >= mostly:
			return "unsplittable: one key, mostly read: " + ofReads
		case f.Reads <= 1-mostly:
			return "unsplittable: one key, mostly written: " + ofWrites
		}
		return "unsplittable: one key, read and written. Read: " + ofReads + ". Written: " + ofWrites
	case classify.MovingEdge:
		remedy := "each new key lies behind all others, so one shard gets all writes: begin the key with what spreads it, such as hash(id) or salt(16, id); cleave advise tells them apart on your data"
		if layout := spreadLayout(k, groups); layout != "" {
			remedy += fmt.Sprintf(". A keyspace for such keys: `cleave keyspace create %s --range --layout '%s'`", quoteShell(spreadName(k.Name)), layout)
		}
		return remedy
	case classify.HotPrefix:
		return "many keys that begin alike are read: let clients cache them (CLIENT TRACKING), or store what is read together under a key that is not shared by all"
	case classify.CrossShard:
		return "keep what one transaction writes together under one key prefix or hash tag, so that it is in one shard"
	case classify.Saturated:
		return "the machine has no time left: no change of shards helps. Use fewer requests (pipelines, and caches for what is read), or a larger machine"
	}
	return ""
}

// spreadLayout returns the layout that would spread the writes of a keyspace that come at its end: with the hash in front
// if the key is one id, and with a salt in front if it has an order that rows may be read in. It is empty if the keyspace
// has no order, or is spread already.
func spreadLayout(k *partition.Keyspace, groups int) string {
	if k == nil || k.Kind != partition.Range {
		return ""
	}
	used := k.Layout
	if used == "" {
		used = "id" // keys of which nothing is known
	}
	layout, err := key.ParseLayout(used)
	if err != nil {
		return ""
	}
	fields := layout.Fields()
	first := fields[0]
	spread := fmt.Sprintf("hash(%s)", first.Column)
	switch {
	case first.Hash || first.Salts > 0:
		return ""
	case len(layout.Columns()) > 1 || first.Type == key.TypeTime:
		advice, err := key.SaltCount(max(groups, 2))
		if err != nil {
			return ""
		}
		spread = fmt.Sprintf("salt(%d)", advice.Salts)
		for _, f := range fields { // the last column that is no time tells rows apart best
			if f.IsColumn() && f.Type != key.TypeTime {
				spread = fmt.Sprintf("salt(%d, %s)", advice.Salts, f.Column)
			}
		}
	}
	var b strings.Builder
	b.WriteString("(" + spread)
	for i, f := range fields {
		switch {
		case i > 0 && f.Partition != fields[i-1].Partition:
			b.WriteString(") | ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(f.String())
	}
	if fields[len(fields)-1].Partition {
		b.WriteByte(')')
	}
	if layout, err = key.ParseLayout(b.String()); err != nil { // it has as many fields as may be, or another salt
		return ""
	}
	return layout.String()
}

// spreadName is the name of the keyspace that rows of another are to be copied to.
func spreadName(name string) string {
	const suffix = "-spread"
	return name[:min(len(name), partition.MaxNameBytes-len(suffix))] + suffix
}

// quoteShell writes a name so that a shell takes it for one word.
func quoteShell(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// describeThrottle says whether the writers of a hot shard are limited, and why they are not; it is empty for what no
// throttle is for. mu is held.
func (b *Balancer) describeThrottle(f *classify.Finding) string {
	s, ok := b.last.shard(f.Shard)
	switch f.Class {
	case classify.HotKey, classify.HotRange, classify.MovingEdge:
	default:
		ok = false
	}
	if !ok || f.Reads == 1 {
		return ""
	}
	for _, t := range b.node.Throttles().List() {
		if t.Shard == f.Shard {
			return fmt.Sprintf("its writers are limited to %s a second", output.Count(int64(t.WritesPerSecond)))
		}
	}
	k := b.tuning.throttle.WithDefaults()
	wait, readWait := b.last.groupWaits[s.Group], b.last.readWait
	why := "it is not the one whose writers are limited first, others want next to nothing, or limits did not help"
	switch {
	case k.Off:
		why = "hot-throttle is off"
	case bool(b.tuning.manual):
		why = "relief is manual"
	case b.isChanging(s) || b.canChange(s, false) && readWait < k.ReadWait:
		why = "a change may relieve it"
	case wait < k.QueueWait && readWait < k.ReadWait:
		why = fmt.Sprintf("one of a hundred writes of its group waits %s or more, and hot-queue-wait is %s; requests wait %s on average before they are read, and hot-read-wait is %s",
			output.Seconds(wait.Seconds()), output.Seconds(k.QueueWait.Seconds()), output.Seconds(readWait.Seconds()), output.Seconds(k.ReadWait.Seconds()))
	}
	return "its writers are not limited: " + why
}

// Remedy is [RemedyOf] a finding.
func (b *Balancer) Remedy(f *classify.Finding) string {
	var k *partition.Keyspace
	if s, ok := b.node.Map().Shard(f.Shard); ok {
		if of := findKeyspace(b.node.Keyspaces(), s.Span); of != nil {
			k = &of.Keyspace
		}
	}
	return RemedyOf(f, k, len(b.node.Map().Groups()))
}

// KeyText returns a key of a finding about a shard, as clients write it.
func (b *Balancer) KeyText(id partition.ShardID, at []byte) string {
	s, ok := b.node.Map().Shard(id)
	if !ok {
		return keyText(nil, at)
	}
	return keyText(findKeyspace(b.node.Keyspaces(), s.Span), at)
}
