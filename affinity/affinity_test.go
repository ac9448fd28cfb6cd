package affinity_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/affinity"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/testkit/typecheck"
)

// North is a third tag beside those of the examples.
type North struct{}

type testSpace struct {
	space *affinity.Space[string]
	east  affinity.Home[East, string]
	west  affinity.Home[West, string]
	north affinity.Home[North, string]
}

// newTestSpace places a key by its first letter: e, w, n; others nowhere.
func newTestSpace(audit func(affinity.Crossing, string)) testSpace {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[West](1), affinity.Declare[North](2), affinity.Declare[East](0)},
		Hash:   func(k string) hash.Stable { return hash.Restore(uint64(strings.Index("ewn", k[:1]))) },
		Route:  func(h hash.Stable) int { return int(int64(h.Uint64())) },
		Audit:  audit,
	}))
	return testSpace{space, must(affinity.HomeOf[East](space)), must(affinity.HomeOf[West](space)), must(affinity.HomeOf[North](space))}
}

// declareAnotherEast declares a type that only prints like East.
func declareAnotherEast(index int) affinity.Declaration {
	type East struct{}
	return affinity.Declare[East](index)
}

func TestMisdeclaredSpacesAreRefusedWithEveryFault(t *testing.T) {
	sum := hash.XXH3String
	type alias = East
	for _, c := range []struct {
		name   string
		shards []affinity.Declaration
		hash   func(string) hash.Stable
		says   []string
	}{
		{"no shards", nil, sum, []string{"no shards"}},
		{"no hash", []affinity.Declaration{affinity.Declare[East](0)}, nil, []string{"no Hash"}},
		{"neither", nil, nil, []string{"no shards", "no Hash"}},
		{"two tags for one index", []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](0)}, sum,
			[]string{"shard 0 has two tags, affinity_test.East and affinity_test.West", "shard 1 has no tag"}},
		{"one tag for two indexes", []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[alias](1)}, sum,
			[]string{"tag affinity_test.East is declared for shard 0 and for shard 1"}},
		{"a gap", []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](2)}, sum,
			[]string{"affinity_test.West has index 2, but 2 shards have the indexes 0 to 1", "shard 1 has no tag"}},
		{"a negative index", []affinity.Declaration{affinity.Declare[East](-1)}, sum, []string{"index -1"}},
		{"a tag without a name", []affinity.Declaration{affinity.Declare[struct{}](0)}, sum, []string{"not a type of yours"}},
		{"a tag that everybody has", []affinity.Declaration{affinity.Declare[int](0)}, sum, []string{"tag int of shard 0 is not a type of yours"}},
		{"two tags of one name", []affinity.Declaration{affinity.Declare[East](0), declareAnotherEast(1)}, sum,
			[]string{"shard 0 and shard 1 are both named affinity_test.East"}},
		{"an empty declaration", make([]affinity.Declaration, 1), sum, []string{"make it with Declare"}},
	} {
		_, err := affinity.NewSpace(affinity.Config[string]{Shards: c.shards, Hash: c.hash})
		if !errors.Is(err, affinity.ErrSpace) {
			t.Errorf("%s: %v, want ErrSpace", c.name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
}

func TestExactlyOneHomeLocatesAKey(t *testing.T) {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](1), affinity.Declare[North](2)},
		Hash:   hash.XXH3String,
	}))
	east, west, north := must(affinity.HomeOf[East](space)), must(affinity.HomeOf[West](space)), must(affinity.HomeOf[North](space))
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.String().Draw(t, "key")
		e, errE := east.Locate(k)
		_, errW := west.Locate(k)
		_, errN := north.Locate(k)
		owners := 0
		for i, err := range []error{errE, errW, errN} {
			if err == nil {
				owners++
				if at, _ := space.Index(k); at != i || uint64(i) != hash.XXH3String(k).Uint64()%3 {
					t.Fatalf("%q is located on shard %d and has index %d", k, i, at)
				}
			} else if !errors.Is(err, affinity.ErrElsewhere) {
				t.Fatal(err)
			}
		}
		if owners != 1 {
			t.Fatalf("%q has %d owners", k, owners)
		}
		if errE == nil && (e.Value() != k || e.Crossed() || e != must(east.Locate(k))) {
			t.Fatalf("key %v is not %q at home", e, k)
		}
	})
}

func TestLocateSaysWhereAKeyLives(t *testing.T) {
	w := newTestSpace(nil)
	_, err := w.east.Locate("wanda")
	var elsewhere *affinity.ElsewhereError
	if !errors.As(err, &elsewhere) || elsewhere.Asked != "affinity_test.East" || elsewhere.Owner != "affinity_test.West" {
		t.Errorf("got %v", err)
	}
	if _, err := w.east.Locate("xaver"); !errors.Is(err, affinity.ErrRoute) {
		t.Errorf("a key that is routed to shard -1: %v, want ErrRoute", err)
	}
	if _, err := w.space.Index("xaver"); !errors.Is(err, affinity.ErrRoute) {
		t.Errorf("its index: %v, want ErrRoute", err)
	}
	if got := fmt.Sprint(must(w.west.Locate("wanda")), w.space.Shards()); got != "affinity_test.West/wanda [affinity_test.East affinity_test.West affinity_test.North]" {
		t.Errorf("prints as %s", got)
	}
}

func TestUndeclaredTagsAndZeroHomesAreRefused(t *testing.T) {
	type South struct{}
	w := newTestSpace(nil)
	if _, err := affinity.HomeOf[South](w.space); !errors.Is(err, affinity.ErrUndeclared) {
		t.Errorf("undeclared tag: %v", err)
	}
	if _, err := affinity.HomeOf[East, string](nil); !errors.Is(err, affinity.ErrUndeclared) {
		t.Errorf("nil space: %v", err)
	}
	var zero affinity.Home[East, string]
	if _, err := zero.Locate("eve"); !errors.Is(err, affinity.ErrUndeclared) {
		t.Errorf("zero Home: %v", err)
	}
	if _, err := affinity.NewShard[int](zero); !errors.Is(err, affinity.ErrUndeclared) {
		t.Errorf("shard of a zero Home: %v", err)
	}
}

// The compiler cannot see these two, so every door checks them.
func TestZeroKeysAndKeysOfAnotherSpaceAreRefused(t *testing.T) {
	here, there := newTestSpace(nil), newTestSpace(nil)
	rows := must(affinity.NewShard[int](here.east))
	bridge := must(affinity.NewBridge(here.east, here.west, "test", "to see it refused"))
	for name, k := range map[string]affinity.Key[East, string]{
		"zero":          {},
		"another space": must(there.east.Locate("eve")),
	} {
		_, loadErr := rows.Load(k)
		_, crossErr := bridge.Cross(k)
		var txErr error
		_ = rows.Do(func(tx *affinity.Tx[East, string, int]) error {
			_, txErr = tx.Load(k)
			return nil
		})
		for i, err := range []error{rows.Store(k, 1), rows.Delete(k), loadErr, crossErr, txErr} {
			if !errors.Is(err, affinity.ErrKey) {
				t.Errorf("%s key, door %d: %v, want ErrKey", name, i, err)
			}
		}
		if k.Crossed() {
			t.Errorf("%s key claims to have crossed", name)
		}
	}
	if rows.Len() != 0 || here.space.Crossings()[0].Count != 0 {
		t.Error("a refused key left a row or a count")
	}
}

func TestZeroValuesRefuseEveryKey(t *testing.T) {
	here := newTestSpace(nil)
	for name, k := range map[string]affinity.Key[East, string]{"zero": {}, "located": must(here.east.Locate("e1"))} {
		var rows affinity.Shard[East, string, int]
		var bridge affinity.Bridge[East, West, string]
		_, loadErr := rows.Load(k)
		_, crossErr := bridge.Cross(k)
		txErr := rows.Do(func(tx *affinity.Tx[East, string, int]) error { return tx.Store(k, 1) })
		for i, err := range []error{rows.Store(k, 1), rows.Delete(k), loadErr, crossErr, txErr} {
			if !errors.Is(err, affinity.ErrKey) {
				t.Errorf("%s key, door %d: %v, want ErrKey", name, i, err)
			}
		}
	}
	var space affinity.Space[string]
	var way affinity.Switch[string, int, int]
	_, indexErr := space.Index("e1")
	_, doErr := way.Do("e1", 0)
	for i, err := range []error{indexErr, doErr} {
		if !errors.Is(err, affinity.ErrSpace) {
			t.Errorf("door %d: %v, want ErrSpace", i, err)
		}
	}
	if _, err := affinity.NewSwitch[string, int, int](&space); !errors.Is(err, affinity.ErrSwitch) {
		t.Errorf("a switch of the zero Space: %v, want ErrSwitch", err)
	}
}

func TestAKeyCostsOnePointerMoreThanItsValue(t *testing.T) {
	var k affinity.Key[East, string]
	if got, want := unsafe.Sizeof(k), unsafe.Sizeof("")+unsafe.Sizeof(uintptr(0)); got != want {
		t.Errorf("a Key of a string takes %d bytes, want %d", got, want)
	}
}

func TestSwitchesNeedOneCaseForEachShard(t *testing.T) {
	w, other := newTestSpace(nil), newTestSpace(nil)
	type args = struct{}
	east := affinity.On(w.east, func(affinity.Key[East, string], args) (string, error) { return "e", nil })
	west := affinity.On(w.west, func(affinity.Key[West, string], args) (string, error) { return "w", nil })
	north := affinity.On(w.north, func(affinity.Key[North, string], args) (string, error) { return "n", nil })
	foreign := affinity.On(other.north, func(affinity.Key[North, string], args) (string, error) { return "n", nil })
	empty := affinity.On[North, string, args, string](w.north, nil)
	type cases = []affinity.Case[string, args, string]
	for _, c := range []struct {
		cases cases
		says  string
	}{
		{cases{east, west}, "no case for affinity_test.North"},
		{cases{east, west, north, west}, "two cases for affinity_test.West"},
		{cases{east, west, empty}, "the case for affinity_test.North has no function"},
		{cases{east, west, foreign}, "case 2 is for no shard of this space"},
		{cases{{}}, "case 0 is for no shard"},
	} {
		if _, err := affinity.NewSwitch(w.space, c.cases...); !errors.Is(err, affinity.ErrSwitch) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
	if _, err := affinity.NewSwitch(nil, east); !errors.Is(err, affinity.ErrSwitch) {
		t.Errorf("nil space: %v", err)
	}
	sw := must(affinity.NewSwitch(w.space, north, west, east))
	for _, k := range []string{"eve", "wanda", "nora"} {
		if got, err := sw.Do(k, args{}); err != nil || got != k[:1] {
			t.Errorf("%s went to %q, %v", k, got, err)
		}
	}
	if _, err := sw.Do("xaver", args{}); !errors.Is(err, affinity.ErrRoute) {
		t.Errorf("a key without a shard: %v", err)
	}
}

func TestBridgesNeedAReasonAndTwoShards(t *testing.T) {
	w, other := newTestSpace(nil), newTestSpace(nil)
	_, err := affinity.NewBridge(w.east, other.west, "", "")
	for _, part := range []string{"no who", "no reason", "not in one space"} {
		if !errors.Is(err, affinity.ErrBridge) || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if _, err := affinity.NewBridge(w.east, w.east, "test", "none"); !errors.Is(err, affinity.ErrBridge) || !strings.Contains(err.Error(), "one shard") {
		t.Errorf("both ends on one shard: %v", err)
	}
	if _, err := affinity.NewBridge(affinity.Home[East, string]{}, affinity.Home[West, string]{}, "test", "none"); !errors.Is(err, affinity.ErrBridge) {
		t.Errorf("zero homes: %v", err)
	}
}

func TestEveryCrossingIsCountedAndAudited(t *testing.T) {
	const workers, each = 8, 500
	var mu sync.Mutex
	audited := map[affinity.Crossing]string{}
	w := newTestSpace(func(c affinity.Crossing, key string) {
		mu.Lock()
		defer mu.Unlock()
		audited[c] = key
	})
	eve := must(w.east.Locate("eve"))
	must(affinity.NewBridge(w.west, w.north, "nobody", "declared and not used"))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			// Equal declarations are one crossing, whichever side makes the bridge.
			bridge := must(affinity.NewBridge(w.east, w.west, "billing", "settle"))
			for range each {
				if guest, err := bridge.Cross(eve); err != nil || guest.Value() != "eve" || !guest.Crossed() {
					t.Errorf("crossed as %v, %v", guest, err)
				}
			}
		})
	}
	wg.Wait()
	settle := affinity.Crossing{From: "affinity_test.East", To: "affinity_test.West", Who: "billing", Reason: "settle", Count: workers * each}
	unused := affinity.Crossing{From: "affinity_test.West", To: "affinity_test.North", Who: "nobody", Reason: "declared and not used"}
	if got := w.space.Crossings(); len(got) != 2 || got[0] != settle || got[1] != unused {
		t.Errorf("crossings %v, want %v and %v", got, settle, unused)
	}
	// The audit saw each count once, with the key.
	if len(audited) != workers*each {
		t.Errorf("audited %d different crossings, want %d", len(audited), workers*each)
	}
	if key := audited[settle]; key != "eve" {
		t.Errorf("the last crossing was audited with key %q", key)
	}
}

// Without an audit that takes a lock, nothing but the counter keeps order.
func TestNoCrossingIsLostBetweenGoroutines(t *testing.T) {
	const workers, each = 4, 100_000 // long enough for several time slices
	w := newTestSpace(nil)
	eve := must(w.east.Locate("eve"))
	bridge := must(affinity.NewBridge(w.east, w.west, "test", "to be counted"))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			<-start
			for range each {
				must(bridge.Cross(eve))
			}
		})
	}
	close(start)
	wg.Wait()
	if got := w.space.Crossings()[0].Count; got != workers*each {
		t.Errorf("counted %d crossings of %d", got, workers*each)
	}
}

func TestACrossedKeyRemembersItsHome(t *testing.T) {
	w := newTestSpace(nil)
	out := must(affinity.NewBridge(w.east, w.west, "test", "out"))
	back := must(affinity.NewBridge(w.west, w.east, "test", "back"))
	eve := must(w.east.Locate("eve"))
	guest := must(out.Cross(eve))
	if got := guest.String(); got != "affinity_test.East/eve" {
		t.Errorf("the guest prints as %s", got)
	}
	if home := must(back.Cross(guest)); home != eve || home.Crossed() {
		t.Errorf("came back as %v, left as %v", home, eve)
	}
}

func TestAKeyOfOneShardDoesNotCompileOnAnother(t *testing.T) {
	if err := typecheck.Check("testdata/shards.go"); err != nil {
		t.Error(err)
	}
}

func TestADebitOnTheWrongShardDoesNotCompile(t *testing.T) {
	if err := typecheck.Check("testdata/bank.go"); err != nil {
		t.Error(err)
	}
}
