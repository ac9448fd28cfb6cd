package route

import "slices"

// WithRelabelled returns a router with node in the middle of the others.
func (r *Interval) WithRelabelled(node Node) (*Interval, error) {
	return NewInterval(inserted(r.nodes, []Node{node}))
}

// WithoutRelabelled returns a router that lacks the node of that name, with
// the others in the order that moves fewer keys: as they are, or with the
// middle node in the removed one's place.
func (r *Interval) WithoutRelabelled(name string) (*Interval, error) {
	nodes, err := withoutGaps(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewInterval(nodes)
}

// closeGap deletes the node at an index, with the gap where closing it moves
// the least.
func closeGap(nodes []Node, at int) []Node {
	left := len(nodes) - 1
	middle := left / 2
	if gapCost(middle, left)+keptBy(at, middle, left) < gapCost(at, left) {
		nodes[at] = nodes[middle]
		at = middle
	}
	return slices.Delete(nodes, at, at+1)
}

// gapCost tells what moves when the gap of a node is closed at index k and
// left nodes remain, as a multiple of 1/(left*(left+1)) of all keys. The nodes
// before the gap lose 1, 2, … k such parts to their neighbours, those
// behind it 1, 2, … left-k, counted from the ends.
func gapCost(k, left int) int64 {
	before, behind := int64(k), int64(left-k)
	return (before*(before+1) + behind*(behind+1)) / 2
}

// keptBy tells, in the same unit, what the node at index i keeps when the gap
// is closed at index k. It is what moves in addition if another node takes
// over i's interval instead.
func keptBy(i, k, left int) int64 {
	if i < k {
		return int64(left - i)
	}
	return int64(i)
}
