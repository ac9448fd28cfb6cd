package ident

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// FuzzRecognise feeds arbitrary samples: the verdict must be well formed, and
// the same again for the same sample.
func FuzzRecognise(f *testing.F) {
	for _, c := range columns {
		f.Add(strings.Join(sampleOf(c.make, 14, 1), "\n"))
	}
	f.Add(strings.Repeat("0000000000000000\n7fffffffffffffff\n-9223372036854775808\n18446744073709551615\n", 4))
	f.Add(strings.Repeat("\x00\xff\x00\xff\x00\xff\x00\xff\n9999-12-31T23:59:59.999999999-23:59\n0000-00-00\n", 5))
	f.Fuzz(func(t *testing.T, data string) {
		lines := strings.Split(data, "\n")
		got := recognise(t, lines)
		checkVerdict(t, got, len(lines))
		if again := recognise(t, lines); !reflect.DeepEqual(got, again) {
			t.Errorf("two verdicts on one sample:\n%+v\n%+v", got, again)
		}
		checkVerdict(t, recognise(t, bytes.Split([]byte(data), []byte("\n"))), len(lines))
	})
}

func checkVerdict(t *testing.T, r Recognition, values int) {
	t.Helper()
	for _, x := range []float64{r.Share, r.Confidence, r.Rising} {
		if math.IsNaN(x) || x < 0 || x > 1 {
			t.Errorf("a share of %v in %+v", x, r)
		}
	}
	total := 0
	for i, p := range r.Parts {
		total += p.Count
		if i > 0 && p.Count > r.Parts[i-1].Count {
			t.Errorf("parts out of order: %v", r.Parts)
		}
	}
	if r.Values != values || len(r.Parts) > 0 && total != values || len(r.Parts) == 0 && r.Kind != Unknown {
		t.Errorf("%d values, parts %v, kind %v", values, r.Parts, r.Kind)
	}
	if r.Newest.Before(r.Oldest) || r.Advice == "" || len(r.Evidence) == 0 {
		t.Errorf("incomplete: %+v", r)
	}
	if r.Kind == Snowflake && r.Newest.After(present.Add(24*time.Hour)) {
		t.Errorf("a Snowflake of the future: %v", r.Newest)
	}
}
