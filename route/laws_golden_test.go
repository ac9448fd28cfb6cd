package route

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

// golden has placements that must never change: data lies where an earlier
// version put it. A failure here means that an upgrade would look for keys in
// the wrong place; undo the change of the router rather than this table.
var golden = map[string]struct {
	owners string // of the first 32 sample keys among 8 nodes
	digest uint64 // of placements among 64 nodes, before and after edits
}{
	"modulo":              {"71652207642537657324472641224062", 0xbef218c9260a22ea},
	"mask":                {"71652207642537657324472641224062", 0xbef218c9260a22ea},
	"interval":            {"74403353450246342405106755644556", 0x277efa561fae3207},
	"interval-relabelled": {"74403353450246342405106755644556", 0x9159d4d38d5d98d4},
	"jump":                {"73047357575672714577167203777532", 0x91411da11266b91b},
	"binomial":            {"71472206562637577326652541325062", 0x94d67d1ea7ee5fd9},
	"anchor":              {"33716676240534625616303130415373", 0x348b26ac9dd231b1},
	"maglev":              {"21516233532046211126252467056006", 0xd554a281f20b2544},
	"ring":                {"41450541073213564050307024244206", 0xe308fef913651db0},
	"bounded-ring":        {"41450541073213564050304024244206", 0xd18c35c1febdf6cf},
	"rendezvous":          {"75501472705753646440315372732617", 0xed3d24b39d4acf03},
}

func TestPlacementNeverChanges(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.New(numbered(8)))
		got := ""
		for _, i := range owners(r, 32) {
			got += fmt.Sprint(i)
		}
		digest := placementDigest(k)
		if want := golden[k.Name]; got != want.owners || digest != want.digest {
			t.Errorf("placement changed: now %q: {%q, %#x}, was {%q, %#x}", k.Name, got, digest, want.owners, want.digest)
		}
	})
}

// placementDigest hashes whom a router of 64 nodes prefers, in two zones and
// with weights where it can have them, also after growth and after removal.
func placementDigest(k Kind) uint64 {
	nodes := numbered(64)
	for i := range nodes {
		nodes[i].Zone = []string{"a", "b", ""}[i%3]
		if k.Weighted {
			nodes[i].Weight = 1 + float64(i%4)/2
		}
	}
	var text []byte
	add := func(r Router) {
		for h := range Sample(2000) {
			for _, i := range r.RouteN(nil, h, 3) {
				text = binary.AppendUvarint(text, uint64(i))
			}
		}
	}
	r := must(k.New(nodes))
	add(r)
	add(must(k.With(r, numbered(128)[64:]...)))
	var last []string
	for i := 63; i >= 32; i-- {
		last = append(last, nodes[i].Name)
	}
	add(must(k.Without(r, last...)))
	return hash.XXH3(text).Uint64()
}
