package route

import "fmt"

// Payload is a value that a [Node] carries for the program: a connection, an address, a handle.
// It has no part in routing: routers of equal names, weights and zones answer alike whatever
// their nodes carry. The zero Payload carries nothing. It is neither written as JSON nor kept
// by an [AnchorState].
//
// Two nodes are equal by == only if they carry the very same Payload, and not if they carry two
// of equal values: compare names.
type Payload struct{ box payloadBox }

// payloadBox is a *boxOf of some type, so that a Payload can be compared whatever it carries.
type payloadBox interface{ describe() string }

type boxOf[T any] struct{ value T }

func (b *boxOf[T]) describe() string { return fmt.Sprintf("%T", b.value) }

// NewPayload returns a payload that carries a value.
func NewPayload[T any](value T) Payload { return Payload{&boxOf[T]{value}} }

// PayloadOf returns what a node carries, and false if that is nothing or of another type than T.
// T is the type that [NewPayload] was called with, not one that its value implements.
func PayloadOf[T any](n Node) (value T, ok bool) {
	b, ok := n.Payload.box.(*boxOf[T])
	if !ok {
		return value, false
	}
	return b.value, true
}

// String names the type that is carried, "" if there is none: what is carried may be a secret.
func (p Payload) String() string {
	if p.box == nil {
		return ""
	}
	return p.box.describe()
}
