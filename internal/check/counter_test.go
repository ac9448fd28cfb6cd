package check

import (
	"math/rand/v2"
	"testing"
)

func TestACounterLiesBetweenWhatMustAndWhatMayBe(t *testing.T) {
	add := func(invoke, ret, delta int64) Count { return Count{Call: ok(invoke, ret), Delta: delta} }
	told := func(invoke, ret, delta, value int64) Count {
		return Count{Call: ok(invoke, ret), Delta: delta, Told: true, Value: value}
	}
	maybe := Count{Call: Call{Invoke: 0}, Delta: 10}
	for _, test := range []struct {
		what  string
		calls []Count
		want  Kind
	}{
		{"nothing", []Count{told(0, 1, 0, 0)}, ""},
		{"what is done counts", []Count{add(0, 1, 2), told(2, 3, 0, 2)}, ""},
		{"and is missed", []Count{add(0, 1, 2), told(2, 3, 0, 0)}, OutOfBounds},
		{"what runs may count", []Count{add(0, 5, 2), told(2, 3, 0, 2)}, ""},
		{"or not", []Count{add(0, 5, 2), told(2, 3, 0, 0)}, ""},
		{"what begins at the end may count", []Count{add(3, 5, 2), told(2, 3, 0, 2)}, ""},
		{"what is to come does not", []Count{add(4, 5, 2), told(2, 3, 0, 2)}, OutOfBounds},
		{"open, done", []Count{maybe, told(2, 3, 0, 10)}, ""},
		{"open, not done", []Count{maybe, told(2, 3, 0, 0)}, ""},
		{"open, done twice", []Count{maybe, told(2, 3, 0, 20)}, OutOfBounds},
		{"failed", []Count{{Call: Call{Status: Failed}, Delta: 1}, told(2, 3, 0, 1)}, OutOfBounds},
		{"less", []Count{add(0, 1, 5), add(2, 3, -2), told(4, 5, 0, 3)}, ""},
		{"less is missed", []Count{add(0, 1, 5), add(2, 3, -2), told(4, 5, 0, 5)}, OutOfBounds},
		{"its own counts", []Count{told(0, 1, 3, 0)}, OutOfBounds},
		{"one is lost", []Count{told(0, 9, 1, 1), told(0, 9, 1, 1)}, Duplicate},
		{"it falls", []Count{maybe, told(1, 2, 0, 10), told(3, 4, 0, 0)}, Reordered},
		{"backwards", []Count{told(1, 0, 0, 0)}, Malformed},
	} {
		t.Run(test.what, func(t *testing.T) { expect(t, Counter(test.calls), test.want) })
	}
}

func TestARightCounterHasNoAnomaly(t *testing.T) {
	trials(t, 2000, func(rng *rand.Rand) {
		var calls []Count
		var value int64
		lowest := rng.Int64N(2) - 1
		var now int64
		for range 1 + rng.IntN(60) {
			now += rng.Int64N(3)
			c := Count{Call: ok(now-rng.Int64N(10), now+rng.Int64N(10)), Delta: lowest*3 + rng.Int64N(4), Told: rng.IntN(2) == 0}
			if c.Status = Status(rng.IntN(3)); c.Status == OK || c.Status == Unknown && rng.IntN(2) == 0 {
				value += c.Delta
			}
			c.Value = value
			calls = append(calls, c)
		}
		rng.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		if err := Counter(calls).Err(); err != nil {
			t.Error(err)
		}
	})
}
