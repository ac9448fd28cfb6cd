package tally

import "testing"

func TestASeedIsTheOneThatIsAskedFor(t *testing.T) {
	t.Setenv(SeedVariable, "77")
	if n := Seed(t, "."); n != 77 {
		t.Errorf("the seed is %d", n)
	}
	t.Setenv(SeedVariable, "")
	if a, b := Seed(t, "."), Seed(t, "."); a == b {
		t.Errorf("both are %d", a)
	}
}
