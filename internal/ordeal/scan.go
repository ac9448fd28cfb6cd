package main

import (
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/check"
)

// scanKeys is how many keys come and go for scans.
const scanKeys = 24

func scanKey(i int) string { return fmt.Sprintf("o:scan %02d", i) }

// change puts or deletes a key for scans.
func (c *client) change() {
	key := scanKey(c.rng.IntN(scanKeys))
	ks, k := c.at(key)
	ask := call{Change: &check.Change{Key: key, Delete: c.rng.IntN(5) < 2}, Work: "changes"}
	c.do(ask, func(ask *call) error {
		if ask.Change.Delete {
			_, err := ks.Delete(ctx, k)
			return err
		}
		return ks.Set(ctx, k, []byte("1"))
	})
}

// scan lists keys: at one moment, or page by page.
func (c *client) scan() {
	from := c.rng.IntN(scanKeys)
	s := &check.Scan{Start: scanKey(from), End: scanKey(from + 1 + c.rng.IntN(scanKeys-from)), Reverse: c.rng.IntN(3) == 0}
	o := cleave.ScanOptions{Start: []byte(s.Start), End: []byte(s.End), Reverse: s.Reverse, KeysOnly: c.rng.IntN(2) == 0}
	way := c.rng.IntN(4)
	if way == 0 {
		s.Limit = 1 + c.rng.IntN(8)
	}
	c.do(call{Scan: s, Work: "scans"}, func(*call) error {
		switch way {
		case 0:
			o.Limit = s.Limit
			p, err := c.ordered.Scan(ctx, o)
			s.Keys = keysOf(nil, p.Items)
			return err
		case 1:
			return c.pages(s, o)
		case 2:
			return c.db.View(ctx, func(tx *cleave.Txn) error {
				s.Keys = nil
				for item, err := range tx.Scan(c.ordered, o) {
					if err != nil {
						return err
					}
					s.Keys = append(s.Keys, string(item.Key))
				}
				return nil
			})
		}
		for item, err := range c.ordered.All(ctx, o) {
			if err != nil {
				return err
			}
			s.Keys = append(s.Keys, string(item.Key))
		}
		return nil
	})
}

func (c *client) pages(s *check.Scan, o cleave.ScanOptions) error {
	for o.Limit = 1 + c.rng.IntN(5); ; {
		p, err := c.ordered.Scan(ctx, o)
		if err != nil {
			return err
		}
		s.Keys = keysOf(s.Keys, p.Items)
		if o.After = p.Next; p.Next == nil {
			return nil
		}
	}
}

func keysOf(keys []string, items []cleave.Item) []string {
	for _, i := range items {
		keys = append(keys, string(i.Key))
	}
	return keys
}
