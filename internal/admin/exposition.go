package admin

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/actor"
)

// exposition writes figures in the text format of Prometheus: a family with its type and
// help, then its samples.
type exposition struct {
	to   *bytes.Buffer
	name string
}

// family begins a family.
func (x *exposition) family(name, kind, help string) {
	x.name = "cleave_" + name
	fmt.Fprintf(x.to, "# HELP %s %s\n# TYPE %s %s\n", x.name, help, x.name, kind)
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// sample writes one figure. Labels are pairs of a name and a value.
func (x *exposition) sample(suffix string, value float64, labels ...string) {
	x.to.WriteString(x.name + suffix)
	for i := 0; i+1 < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		fmt.Fprintf(x.to, `%s%s="%s"`, open, labels[i], escapeLabel.Replace(labels[i+1]))
	}
	if len(labels) > 1 {
		x.to.WriteByte('}')
	}
	x.to.WriteByte(' ')
	x.to.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	x.to.WriteByte('\n')
}

// one writes a family of one figure.
func (x *exposition) one(name, kind, help string, value float64) {
	x.family(name, kind, help)
	x.sample("", value)
}

// The buckets that are told, of those by powers of two: from about 1 µs to about 17 s,
// each four times the one before.
const (
	firstBucket = 10
	lastBucket  = 34
)

// histogram writes a histogram. Counts are by powers of two nanoseconds, so the upper
// ends of buckets are exact.
func (x *exposition) histogram(h *actor.Histogram, labels ...string) {
	sum, next := uint64(0), 0
	for i := firstBucket; i <= lastBucket; i += 2 {
		for ; next <= i; next++ {
			sum += h.Counts[next]
		}
		le := strconv.FormatFloat(float64(uint64(1)<<i)/1e9, 'g', -1, 64)
		x.sample("_bucket", float64(sum), append(labels[:len(labels):len(labels)], "le", le)...)
	}
	x.sample("_bucket", float64(h.Count()), append(labels[:len(labels):len(labels)], "le", "+Inf")...)
	x.sample("_sum", float64(h.SumNS)/1e9, labels...)
	x.sample("_count", float64(h.Count()), labels...)
}
