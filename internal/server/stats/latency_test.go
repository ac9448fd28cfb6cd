package stats

import (
	"testing"
	"time"
)

func TestLatencyKeepsTheLongestTimeOfEachSecond(t *testing.T) {
	var l LatencyMonitor
	at := time.Unix(1000, 0)
	l.Record("e", at, time.Hour)
	if len(l.Snapshot()) != 0 {
		t.Fatal("it is off")
	}
	l.threshold.Store(int64(10 * time.Millisecond))
	l.Record("e", at, 9*time.Millisecond)
	for i := range maxSamples + 5 {
		l.Record("e", at.Add(time.Duration(i)*time.Second), 20*time.Millisecond)
		l.Record("e", at.Add(time.Duration(i)*time.Second), time.Duration(30+i)*time.Millisecond)
	}
	s := l.Snapshot()["e"]
	last := s.Samples[len(s.Samples)-1]
	if len(s.Samples) != maxSamples || s.Samples[0].Second != 1005 || last.Second != 1000+maxSamples+4 || last.Took != (30+maxSamples+4)*time.Millisecond || s.Max != last.Took {
		t.Errorf("%d samples from %v to %v, at most %v", len(s.Samples), s.Samples[0], last, s.Max)
	}
	if l.Reset("other") != 0 || l.Reset() != 1 || len(l.Snapshot()) != 0 {
		t.Error("it is not forgotten")
	}
}
