package group

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
)

// Whoever has hold of a group that is no more is sent elsewhere, whatever it asks for.
func TestARetiredGroupSendsEverybodyElsewhere(t *testing.T) {
	d := newDisk(true)
	other, g := owner(t, d, 1, serving("a", "m", 1)), owner(t, d, 2, serving("m", "", 1))
	was := serving("m", "", 1)
	gone := was
	gone.State, gone.Version = own.Foreign, 2
	reown(t, g, was, gone)
	ctx := context.Background()
	if err := g.Retire(ctx); err != nil {
		t.Fatal(err)
	}
	get := &command.Get{Key: at("x")}
	_, _, read := g.Read(ctx, at("x"), nil)
	_, peek := g.Peek(ctx, at("x"), get)
	_, do := g.Do(ctx, Request{Command: get, Key: at("x")})
	_, later := g.TryLater(ctx, Request{Command: get, Key: at("x")})
	_, joint := Joint(ctx, []Piece{{other, Request{Command: set("b", "1")}}, {g, Request{Command: set("x", "1")}}})
	still := Still(ctx, []*Group{other, g}, func() {})
	for what, err := range map[string]error{"read": read, "peek": peek, "do": do, "later": later, "joint": joint, "still": still} {
		if !errors.Is(err, own.ErrWrongGroup) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := g.Ready(ctx); err != nil {
		t.Errorf("it holds up who looks at the whole store: %v", err)
	}
	if _, ok, err := other.Read(ctx, at("b"), nil); ok || err != nil {
		t.Errorf("half of a joint request: %v, %v", ok, err)
	}
	if err := g.Close(ctx); err != nil {
		t.Errorf("closed once more: %v", err)
	}
}
