package balancer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
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

// RemedyOf is what helps against a class beside what the balancer does, for whoever wrote the application. The keyspace of
// the shard, nil if it is not known, and the number of groups are what it makes an example of.
func RemedyOf(c classify.Class, k *partition.Keyspace, groups int) string {
	switch c {
	case classify.HotKey:
		return "unsplittable: one key. Read: let clients cache it (CLIENT TRACKING), or keep copies of it in several keys. Written: spread it over several keys (package counter, or a salt) and add them up when it is read"
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
		return "the machine has no time left: no change of shards helps. Use fewer requests (pipelines, caches), or a larger machine"
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

// Remedy is [RemedyOf] a finding.
func (b *Balancer) Remedy(f *classify.Finding) string {
	var k *partition.Keyspace
	if s, ok := b.node.Map().Shard(f.Shard); ok {
		if of := findKeyspace(b.node.Keyspaces(), s.Span); of != nil {
			k = &of.Keyspace
		}
	}
	return RemedyOf(f.Class, k, len(b.node.Map().Groups()))
}

// KeyText returns a key of a finding about a shard, as clients write it.
func (b *Balancer) KeyText(id partition.ShardID, at []byte) string {
	s, ok := b.node.Map().Shard(id)
	if !ok {
		return keyText(nil, at)
	}
	return keyText(findKeyspace(b.node.Keyspaces(), s.Span), at)
}
