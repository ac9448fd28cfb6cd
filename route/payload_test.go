package route

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Whatever nodes carry, a router of any kind answers alike, and hands it on over joins and leaves.
func TestPayload_HasNoPartInRouting(t *testing.T) {
	for _, k := range Kinds() {
		bare, loaded := newNodes(8), newNodes(8)
		for i := range loaded {
			loaded[i].Payload = NewPayload([]int{i}) // of a type that == does not compare
		}
		a, b := must(k.New(bare)), must(k.New(loaded))
		for _, step := range []string{"new", "with", "without"} {
			switch step {
			case "with":
				more := newNodes(16)[8:]
				a = must(k.With(a, more...))
				for i := range more {
					more[i].Payload = NewPayload([]int{8 + i})
				}
				b = must(k.With(b, more...))
			case "without":
				var gone []string
				for _, n := range newNodes(16)[8:] {
					gone = append(gone, n.Name)
				}
				a, b = must(k.Without(a, gone...)), must(k.Without(b, gone...))
			}
			if !slices.Equal(sampleOwners(a, 3000), sampleOwners(b, 3000)) {
				t.Errorf("%s, %s: the router answers otherwise", k.Name, step)
			}
			if m := Compare(a, b, nil); m.Moved != 0 {
				t.Errorf("%s, %s: %v of the keys would move", k.Name, step, m.Moved)
			}
			names := slices.Collect(func(yield func(string) bool) {
				for _, n := range newNodes(16) {
					yield(n.Name)
				}
			})
			for _, n := range b.Nodes() {
				got, ok := PayloadOf[[]int](n)
				if !ok || names[got[0]] != n.Name {
					t.Errorf("%s, %s: %s carries %v, %t", k.Name, step, n.Name, got, ok)
				}
			}
		}
	}
}

func TestPayload_IsNoPartOfTheStateOfAnAnchor(t *testing.T) {
	bare, loaded := newNodes(8), newNodes(8)
	loaded[3].Payload = NewPayload(1)
	a, b := must(NewAnchor(bare, AnchorOptions{})), must(NewAnchor(loaded, AnchorOptions{}))
	if !reflect.DeepEqual(a.State(), b.State()) {
		t.Errorf("%+v and %+v", a.State(), b.State())
	}
	if v, _ := PayloadOf[int](b.Nodes()[3]); v != 1 {
		t.Error("the state took the payload from the router")
	}
}

func TestPayload_IsFoundByItsTypeOnly(t *testing.T) {
	n := Node{Name: "a", Payload: NewPayload("secret")}
	if v, ok := PayloadOf[string](n); !ok || v != "secret" {
		t.Errorf("%q, %t", v, ok)
	}
	if v, ok := PayloadOf[fmt.Stringer](n); ok || v != nil {
		t.Errorf("another type: %v, %t", v, ok)
	}
	if _, ok := PayloadOf[string](Node{}); ok {
		t.Error("a node without a payload carries one")
	}
	text, err := json.Marshal(n)
	if all := fmt.Sprintf("%s %v %+v", text, n, n); err != nil || strings.Contains(all, "secret") || strings.Contains(string(text), "Payload") {
		t.Errorf("%s, %v", all, err)
	}
	if n != (Node{Name: "a", Payload: n.Payload}) || n == (Node{Name: "a", Payload: NewPayload("secret")}) {
		t.Error("nodes are equal by the payload itself")
	}
}
