package serve

import (
	"encoding/hex"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	handleSlow(map[string]func(*turn){"cleave.explain": explain, "cleave.shards": shards})
}

// facts is a map of names and values that is written when it is complete.
type facts []fact

type fact struct {
	name  string
	value any // a string, bytes or a number
}

func (f *facts) add(name string, value any) { *f = append(*f, fact{name, value}) }

// write writes the map. Nil bytes are null.
func (f facts) write(out *redis.Writer) {
	out.Map(len(f))
	for _, p := range f {
		out.Text(p.name)
		switch v := p.value.(type) {
		case string:
			out.Text(v)
		case int64:
			out.Int(v)
		case int:
			out.Int(int64(v))
		case uint64:
			out.Int(int64(v))
		case []byte:
			if v == nil {
				out.Null()
			} else {
				out.Bulk(v)
			}
		default:
			panic("serve: a fact of a type that nobody writes")
		}
	}
}

// explain tells where a key is and what it holds.
func explain(t *turn) {
	name := t.Args[1]
	if err := command.CheckKey(name); err != nil {
		t.out.Fail(err)
		return
	}
	space, err := t.s.db.Keyspace(t.c.space.Name)
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	at, p := space.Locate(name), partition.Position(space.After(name))
	var f facts
	f.add("keyspace", space.Name())
	f.add("kind", space.Options().Kind.String())
	if at.Slot >= 0 {
		f.add("slot", at.Slot)
	}
	f.add("shard", uint64(at.Shard))
	f.add("group", uint64(at.Group))
	f.add("store", at.Store)
	f.add("map-version", uint64(t.s.db.Map().Version()))
	f.add("position", hex.EncodeToString(p))
	var row command.Row
	found := false
	err = t.s.routed(t.ctx, p, func(part *node.Part) (err error) {
		row, found, err = part.Group.Read(t.ctx, p, nil)
		return err
	})
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	if !found {
		f.add("type", "none")
		f.write(t.out)
		return
	}
	f.add("type", redis.TypeName(row.Kind))
	if row.Kind == command.String {
		f.add("bytes", len(row.Payload))
	} else {
		f.add("fields", row.Fields)
	}
	f.add("version", row.Version)
	f.add("expires-ms", row.ExpiryMS) // 0 for never
	f.write(t.out)
}

// shards lists the shards, of one keyspace or of all.
func shards(t *turn) {
	if len(t.Args) > 2 {
		t.out.Fail(redis.Arity(t.Spec.Name))
		return
	}
	all, err := t.s.db.Shards(t.ctx)
	if err == nil && len(t.Args) == 2 {
		var space *node.Space
		if space, err = t.s.spaceOf(string(t.Args[1])); err == nil {
			kept := all[:0]
			for _, s := range all {
				if s.Keyspace == space.Name {
					kept = append(kept, s)
				}
			}
			all = kept
		}
	}
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	t.out.Array(len(all))
	for i := range all {
		shardFacts(&all[i]).write(t.out)
	}
}

func shardFacts(s *cleave.Shard) (f facts) {
	f.add("shard", uint64(s.ID))
	f.add("keyspace", s.Keyspace)
	if s.FirstSlot >= 0 {
		f.add("slots", strconv.Itoa(s.FirstSlot)+"-"+strconv.Itoa(s.LastSlot))
	} else {
		f.add("start-key", s.StartKey)
		f.add("end-key", s.EndKey)
	}
	f.add("group", uint64(s.Group))
	f.add("store", s.Store)
	f.add("rows", s.Rows)
	f.add("bytes", s.Bytes)
	return f
}
