package cleave

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The history of one key is checked against a register that holds a number.
type (
	registerInput struct {
		op      string // get, set, cas, delete or add
		key     string
		value   int64
		version uint64 // that cas expects
	}
	registerOutput struct {
		value   int64
		version uint64 // 0 for absent, or unknown
		ok      bool   // of cas and delete
		// unknown means that a crash came before the answer: it happened, or it
		// did not, and nothing else.
		unknown bool
	}
	register struct {
		present bool
		value   int64
		version uint64 // 0 if there was no answer
		floor   uint64 // every later version is above it
	}
)

// step returns what the register may be after an operation: nothing if the
// answer is impossible.
func (r register) step(in registerInput, out registerOutput) []any {
	if out.unknown {
		return append([]any{r}, r.afterUnanswered(in)...)
	}
	switch in.op {
	case "get":
		if out.version == 0 {
			return registerStates(r, !r.present)
		}
		return r.withVersion(r.present && r.value == out.value, out.version)
	case "set":
		return register{present: true, value: in.value, floor: r.floor}.withVersion(true, out.version)
	case "cas":
		may, mayNot := r.matchVersion(in.version)
		if !out.ok {
			return registerStates(r, mayNot)
		}
		return register{present: true, value: in.value, floor: max(r.floor, in.version)}.withVersion(may, out.version)
	case "delete":
		return registerStates(register{floor: r.floor}, out.ok == r.present)
	default: // add
		sum := in.value
		if r.present {
			sum += r.value
		}
		return registerStates(register{present: true, value: sum, floor: r.floor}, out.value == sum)
	}
}

// withVersion is the register whose version is known now.
func (r register) withVersion(possible bool, version uint64) []any {
	if r.version != 0 {
		return registerStates(r, possible && r.version == version)
	}
	possible = possible && version > r.floor
	r.version, r.floor = version, version
	return registerStates(r, possible)
}

// matchVersion reports whether the register may be at the version that cas expects, 0
// for absent, and whether it may not.
func (r register) matchVersion(version uint64) (may, mayNot bool) {
	switch {
	case !r.present || version == 0:
		may = !r.present && version == 0
		return may, !may
	case r.version != 0:
		return r.version == version, r.version != version
	}
	return version > r.floor, true
}

// afterUnanswered is the register after an operation without an answer.
func (r register) afterUnanswered(in registerInput) []any {
	next := register{present: true, value: in.value, floor: r.floor}
	switch in.op {
	case "get":
		return nil
	case "cas":
		if may, _ := r.matchVersion(in.version); !may {
			return nil
		}
	case "delete":
		next = register{floor: r.floor}
	case "add":
		if r.present {
			next.value += r.value
		}
	}
	return []any{next}
}

func registerStates(r register, possible bool) []any {
	if !possible {
		return nil
	}
	return []any{r}
}

var registerModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(registerInput).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{register{}} },
	Step: func(state, input, output any) []any {
		return state.(register).step(input.(registerInput), output.(registerOutput))
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}).ToModel()

// history collects operations with the order of their calls and returns.
type history struct {
	ticks atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
	// live are the operations of this life of the store that are not yet judged.
	live []porcupine.Operation
}

func (h *history) nextTick() int64 { return h.ticks.Add(1) }

func (h *history) recordOperation(client int, call int64, in registerInput, out registerOutput) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live = append(h.live, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: h.nextTick()})
}

// addAnswered adds a request that was answered.
func (h *history) addAnswered(client int, r *clientRequest) {
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: r.in, Call: r.call, Output: registerOutput{value: r.answer}, Return: r.ret,
	})
}

// endLife judges the operations of a life that ended between two ticks. What
// returned before is known. What was called after never happened. The rest
// got no answer.
func (h *history) endLife(before, after int64) (unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.live {
		switch {
		case op.Call > after:
			continue
		case op.Return > before:
			op.Output, op.Return = registerOutput{unknown: true}, after
			unknown++
		}
		h.ops = append(h.ops, op)
	}
	h.live = nil
	return unknown
}

// check fails the test if the history is not linearizable.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.endLife(math.MaxInt64, math.MaxInt64) // the end: all is known
	perKey := map[string]int{}
	for _, op := range h.ops {
		perKey[op.Input.(registerInput).key]++
	}
	for key, n := range perKey {
		if n > 1000 {
			t.Fatalf("%d operations on %s: porcupine would not come to an end", n, key)
		}
	}
	for _, part := range registerModel.Partition(h.ops) {
		result, info := porcupine.CheckOperationsVerbose(registerModel, part, 30*time.Second)
		if result != porcupine.Ok {
			t.Logf("%d operations on the key", len(part))
			printCounterexample(t, part, info)
			t.Fatalf("the history is not linearizable: %s", result)
		}
	}
}

// printCounterexample prints the operations of a key around the first that has no place in
// any order that was tried.
func printCounterexample(t *testing.T, part []porcupine.Operation, info porcupine.LinearizationInfo) {
	best := 0
	placed := map[int]bool{}
	for _, tried := range info.PartialLinearizations()[0] {
		if len(tried) > best {
			best = len(tried)
			clear(placed)
			for _, id := range tried {
				placed[id] = true
			}
		}
	}
	until := int64(math.MaxInt64)
	for i, op := range part {
		if !placed[i] {
			until = min(until, op.Return)
		}
	}
	for i, op := range part {
		if op.Return > until-60 && op.Call < until+30 {
			t.Logf("client %d [%d, %d] placed=%v %s", op.ClientId, op.Call, op.Return, placed[i], registerModel.DescribeOperation(op.Input, op.Output))
		}
	}
}

// The checker itself must see what is wrong.
func TestTheCheckerRefusesWrongHistories(t *testing.T) {
	op := func(call, ret int64, in registerInput, out registerOutput) porcupine.Operation {
		in.key = "k"
		return porcupine.Operation{Input: in, Call: call, Output: out, Return: ret}
	}
	set := registerInput{op: "set", value: 5}
	get := registerInput{op: "get"}
	for name, h := range map[string]struct {
		ops  []porcupine.Operation
		good bool
	}{
		"what was written is read":       {[]porcupine.Operation{op(1, 2, set, registerOutput{version: 1}), op(3, 4, get, registerOutput{value: 5, version: 1})}, true},
		"an acknowledged write is lost":  {[]porcupine.Operation{op(1, 2, set, registerOutput{version: 1}), op(3, 4, get, registerOutput{})}, false},
		"an unknown write is lost":       {[]porcupine.Operation{op(1, 2, set, registerOutput{unknown: true}), op(3, 4, get, registerOutput{})}, true},
		"an unknown write is there":      {[]porcupine.Operation{op(1, 2, set, registerOutput{unknown: true}), op(3, 4, get, registerOutput{value: 5, version: 1})}, true},
		"an unknown write comes late":    {[]porcupine.Operation{op(1, 2, set, registerOutput{unknown: true}), op(3, 4, get, registerOutput{}), op(5, 6, get, registerOutput{value: 5, version: 1})}, false},
		"what was read is lost":          {[]porcupine.Operation{op(1, 4, set, registerOutput{unknown: true}), op(2, 3, get, registerOutput{value: 5, version: 1}), op(5, 6, get, registerOutput{})}, false},
		"a version is used again":        {[]porcupine.Operation{op(1, 2, set, registerOutput{version: 7}), op(3, 4, set, registerOutput{version: 7})}, false},
		"a version goes back":            {[]porcupine.Operation{op(1, 2, set, registerOutput{version: 7}), op(3, 4, set, registerOutput{version: 6})}, false},
		"an add happens twice":           {[]porcupine.Operation{op(1, 2, registerInput{op: "add", value: 1}, registerOutput{value: 1}), op(3, 4, registerInput{op: "add", value: 1}, registerOutput{value: 3})}, false},
		"cas succeeds at an old version": {[]porcupine.Operation{op(1, 2, set, registerOutput{version: 7}), op(3, 4, set, registerOutput{version: 8}), op(5, 6, registerInput{op: "cas", version: 7, value: 1}, registerOutput{ok: true, version: 9})}, false},
	} {
		if got := porcupine.CheckOperations(registerModel, h.ops); got != h.good {
			t.Errorf("%s: %v, want %v", name, got, h.good)
		}
	}
}
