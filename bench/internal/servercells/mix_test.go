package servercells

import "testing"

func TestWhatIsOnItsWayIsNotThereYet(t *testing.T) {
	c := newCensus(10)
	first, second, third := c.next(), c.next(), c.next()
	if first != 10 || second != 11 || third != 12 {
		t.Fatalf("numbers %d, %d, %d", first, second, third)
	}
	for _, step := range []struct {
		inserted []int
		there    int
	}{{nil, 10}, {[]int{second}, 10}, {[]int{first}, 12}, {[]int{third}, 13}} {
		if c.inserted(step.inserted); c.count() != step.there {
			t.Errorf("with %v there are %d keys, want %d", step.inserted, c.count(), step.there)
		}
	}
}
