// Package kinds shows what the three value types allow and what they refuse.
package kinds

import (
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

func place(r route.Router, key []byte) {
	stable := hash.XXH3(key)
	_ = r.Route(stable)
	_ = r.RouteN(nil, stable.Derive(1), 3)
	_ = r.Route(hash.Uint64(7))
	_ = r.Route(hash.Restore(stable.Uint64())) // a value read back from disk

	var m hash.Maphash
	local := m.Sum(key)
	_ = r.Route(local)                                       // want "cannot use local (variable of struct type hash.Local) as hash.Stable value in argument to r.Route"
	_ = r.RouteN(nil, local, 3)                              // want "cannot use local (variable of struct type hash.Local) as hash.Stable value"
	_ = r.Route(hash.NewSipHash([16]byte{}).Sum(key))        // want "(value of struct type hash.Local) as hash.Stable value"
	_ = r.Route(hash.Comparable(m, 7))                       // want "(value of struct type hash.Local) as hash.Stable value"
	_ = r.Route(hash.FNV1a(key))                             // want "(value of struct type hash.Weak) as hash.Stable value"
	_ = r.Route(local.Uint64())                              // want "(value of type uint64) as hash.Stable value"
	_ = r.Route(hash.Stable(local))                          // want "cannot convert local (variable of struct type hash.Local) to type hash.Stable"
	_ = r.Route(hash.Stable(hash.Fx(key)))                   // want "cannot convert hash.Fx(key) (value of struct type hash.Weak) to type hash.Stable"
	_ = hash.Local(hash.Fx(key))                             // want "cannot convert"
	_ = r.Route(hash.Stable{local.Uint64()})                 // want "implicit assignment to unexported field"
	_ = r.Route(hash.Stable(struct{ bits uint64 }{bits: 1})) // want "cannot convert"
}
