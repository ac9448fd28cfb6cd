package ident

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/key"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Makers of one identifier at a time; all randomness is seeded by the caller.
func makeSnowflake(epoch Epoch, t time.Time, r *rand.Rand) int64 {
	return (t.UnixMilli()-epoch.Start.UnixMilli())<<22 | r.Int64N(8)<<12 | r.Int64N(3)
}

func makeUUID(version byte, hi, lo uint64) key.UUID {
	var u key.UUID
	binary.BigEndian.PutUint64(u[:8], hi)
	binary.BigEndian.PutUint64(u[8:], lo)
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	return u
}

func makeUUIDAt(version byte, t time.Time, r *rand.Rand) key.UUID {
	ticks := uint64(t.Unix()+12_219_292_800)*10_000_000 + uint64(t.Nanosecond())/100
	switch version {
	case 1:
		return makeUUID(1, ticks<<32|ticks>>32&0xffff<<16|ticks>>48, r.Uint64())
	case 6:
		return makeUUID(6, ticks>>12<<16|ticks&0xfff, r.Uint64())
	case 7:
		return makeUUID(7, uint64(t.UnixMilli())<<16|r.Uint64N(1<<16), r.Uint64())
	}
	return makeUUID(version, r.Uint64(), r.Uint64())
}

func makeULID(t time.Time, r *rand.Rand) string {
	hi, lo := uint64(t.UnixMilli())<<16|r.Uint64N(1<<16), r.Uint64()
	text := make([]byte, 26)
	for i := 25; i >= 0; i-- {
		text[i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(text)
}

func newIntColumn(f func(i int) int64) func(*rand.Rand, int, time.Time) string {
	return func(_ *rand.Rand, i int, _ time.Time) string { return strconv.FormatInt(f(i), 10) }
}

// testColumns are kinds of columns with the value that the i-th arrival brings.
var testColumns = []struct {
	name   string
	kind   Kind
	unsafe bool
	make   func(r *rand.Rand, i int, t time.Time) string
}{
	{"twitter", Snowflake, true, func(r *rand.Rand, _ int, t time.Time) string {
		return strconv.FormatInt(makeSnowflake(KnownEpochs()[0], t, r), 10)
	}},
	{"discord", Snowflake, true, func(r *rand.Rand, _ int, t time.Time) string {
		return strconv.FormatInt(makeSnowflake(KnownEpochs()[1], t, r), 10)
	}},
	{"ulid", ULID, true, func(r *rand.Rand, _ int, t time.Time) string { return makeULID(t, r) }},
	{"lower ulid", ULID, true, func(r *rand.Rand, _ int, t time.Time) string { return strings.ToLower(makeULID(t, r)) }},
	{"v1", UUIDv1, true, func(r *rand.Rand, _ int, t time.Time) string { return makeUUIDAt(1, t, r).String() }},
	{"v4", UUIDv4, false, func(r *rand.Rand, _ int, t time.Time) string { return makeUUIDAt(4, t, r).String() }},
	{"v6", UUIDv6, true, func(r *rand.Rand, _ int, t time.Time) string { return makeUUIDAt(6, t, r).String() }},
	{"v7", UUIDv7, true, func(r *rand.Rand, _ int, t time.Time) string { return makeUUIDAt(7, t, r).String() }},
	{"v7 hex", UUIDv7, true, func(r *rand.Rand, _ int, t time.Time) string {
		return strings.ReplaceAll(makeUUIDAt(7, t, r).String(), "-", "")
	}},
	{"v5", UUIDOther, false, func(r *rand.Rand, _ int, t time.Time) string { return makeUUIDAt(5, t, r).String() }},
	{"counter as v4", UUIDOther, true, func(_ *rand.Rand, i int, _ time.Time) string { return makeUUID(4, 0, uint64(i)).String() }},
	{"seconds", UnixSeconds, true, func(_ *rand.Rand, _ int, t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }},
	{"millis", UnixMillis, true, func(_ *rand.Rand, _ int, t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }},
	{"micros", UnixMicros, true, func(_ *rand.Rand, _ int, t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }},
	{"nanos", UnixNanos, true, func(_ *rand.Rand, _ int, t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }},
	{"rfc3339", TimeText, true, func(_ *rand.Rand, _ int, t time.Time) string { return t.Format(time.RFC3339Nano) }},
	{"datetime", TimeText, true, func(_ *rand.Rand, _ int, t time.Time) string { return t.Format(time.DateTime) }},
	{"date", Date, true, func(_ *rand.Rand, i int, _ time.Time) string {
		return testNow.AddDate(0, 0, i-500).Format(time.DateOnly)
	}},
	{"compact date", Date, true, func(_ *rand.Rand, i int, _ time.Time) string {
		return testNow.AddDate(0, 0, i-500).Format("20060102")
	}},
	{"birthday", Date, false, func(r *rand.Rand, _ int, _ time.Time) string {
		return testNow.AddDate(-18, 0, -r.IntN(20000)).Format(time.DateOnly)
	}},
	{"counter", AutoIncrement, true, newIntColumn(func(i int) int64 { return int64(1000 + i) })},
	{"sampled counter", AutoIncrement, true, func(r *rand.Rand, i int, _ time.Time) string {
		return strconv.Itoa(5_000_000 + 1000*i + r.IntN(1000))
	}},
	{"countdown", AutoIncrement, true, newIntColumn(func(i int) int64 { return int64(-i) })},
	{"own epoch", OrderedInt, true, newIntColumn(func(i int) int64 { return 1<<55 + int64(i)<<30 })},
	{"random 64", RandomInt, false, func(r *rand.Rand, _ int, _ time.Time) string { return strconv.FormatUint(r.Uint64(), 10) }},
	{"random 32", RandomInt, false, func(r *rand.Rand, _ int, _ time.Time) string { return strconv.FormatUint(uint64(r.Uint32()), 10) }},
	{"names", Opaque, false, func(r *rand.Rand, _ int, _ time.Time) string { return fmt.Sprintf("%c-%x", 'a'+r.IntN(26), r.Uint32()) }},
	{"md5", Opaque, false, func(r *rand.Rand, _ int, _ time.Time) string {
		return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
	}},
	{"rising text", Opaque, true, func(_ *rand.Rand, i int, _ time.Time) string { return fmt.Sprintf("order-%08d", i) }},
}

// sampleOf lets a column arrive at one record every 7.3 seconds, up to now.
func sampleOf(make func(r *rand.Rand, i int, t time.Time) string, n int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 7))
	var values []string
	for i := range n {
		t := testNow.Add(time.Duration(i-n) * 7300 * time.Millisecond).Add(time.Duration(r.IntN(1e9)))
		values = append(values, make(r, i, t))
	}
	return values
}

func mustRecognise[V Sampled](t interface{ Fatal(...any) }, values []V) Recognition {
	r, err := Recognise(values, testNow, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryKindIsRecognised(t *testing.T) {
	for _, c := range testColumns {
		for _, n := range []int{40, 300} {
			got := mustRecognise(t, sampleOf(c.make, n, 1))
			if got.Kind != c.kind || got.AppendUnsafe != c.unsafe || got.Share < 0.9 {
				t.Errorf("%s, %d values: got %v, unsafe %v, share %v; want %v, unsafe %v\n%s",
					c.name, n, got.Kind, got.AppendUnsafe, got.Share, c.kind, c.unsafe, strings.Join(got.Evidence, "\n"))
			}
			if got.Advice == "" || len(got.Evidence) == 0 || got.Confidence < 0.85 {
				t.Errorf("%s, %d values: thin report %+v", c.name, n, got)
			}
		}
	}
}

func TestTimesComeOutOfIdentifiers(t *testing.T) {
	for _, c := range testColumns {
		if !kindInfo[c.kind].ordered || c.kind == AutoIncrement || c.kind == OrderedInt {
			continue
		}
		got := mustRecognise(t, sampleOf(c.make, 60, 3))
		if got.Newest.After(testNow) || got.Newest.Before(testNow.Add(-time.Minute)) || got.Oldest.Before(testNow.Add(-8*time.Minute)) {
			t.Errorf("%s: times from %v to %v", c.name, got.Oldest, got.Newest)
		}
	}
}

func TestKnownEpochsAreTheSameInEveryZone(t *testing.T) {
	for _, e := range KnownEpochs() {
		if e.Start.Location() != time.UTC {
			t.Errorf("%s starts at %v, which prints by the machine's zone", e.Name, e.Start)
		}
	}
}

func TestEpochsAreToldApart(t *testing.T) {
	own := Epoch{"ours", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, e := range append(KnownEpochs(), own) {
		r := rand.New(rand.NewPCG(4, 4))
		var ids []int64
		for i := range 30 {
			ids = append(ids, makeSnowflake(e, testNow.Add(time.Duration(i-40)*time.Minute), r))
		}
		got, err := Recognise(ids, testNow, Options{Epochs: append(KnownEpochs(), own)})
		if err != nil || got.Kind != Snowflake || got.Epoch != e.Name {
			t.Errorf("%s: got %v of %q, %v", e.Name, got.Kind, got.Epoch, err)
		}
	}
}

func TestOldSnowflakesAndOldNanosecondsAreToldApart(t *testing.T) {
	// In 2019 nanoseconds look like later Snowflakes; traces decide.
	r := rand.New(rand.NewPCG(5, 5))
	var flakes, nanos []int64
	for i := range 60 {
		when := time.Date(2019, 6, 1, 0, i, 0, r.IntN(1e9), time.UTC)
		flakes = append(flakes, makeSnowflake(KnownEpochs()[0], when, r))
		nanos = append(nanos, when.UnixNano())
	}
	if got := mustRecognise(t, nanos); got.Kind != UnixNanos || !slices.Contains(got.Alternatives, Snowflake) {
		t.Errorf("nanoseconds: got %v, %v", got.Kind, got.Evidence)
	}
	if got := mustRecognise(t, flakes); got.Kind != Snowflake {
		t.Errorf("Snowflakes: got %v, %v", got.Kind, got.Evidence)
	}
}

func TestShuffledSamplesKeepTheirKind(t *testing.T) {
	for _, c := range testColumns {
		if c.kind == OrderedInt || c.name == "sampled counter" || c.name == "rising text" || c.name == "counter as v4" {
			continue // these are known by their order alone
		}
		values := sampleOf(c.make, 300, 9)
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		if got := mustRecognise(t, values); got.Kind != c.kind {
			t.Errorf("%s: got %v\n%s", c.name, got.Kind, strings.Join(got.Evidence, "\n"))
		}
	}
}

// drawRandomInts draws integers without meaning, from one of the ranges that
// generators use: whole words, a number of bits, a number of digits, or any
// limit at all.
func drawRandomInts(r *rand.Rand, n int) []uint64 {
	bits, digits := 30+r.IntN(35), 10+r.IntN(10)
	limit := 1 + r.Uint64()>>(64-bits)
	pick := r.IntN(4)
	values := make([]uint64, n)
	for i := range values {
		switch pick {
		case 0:
			values[i] = r.Uint64() >> r.IntN(2) // 63 and 64 bits
		case 1:
			values[i] = r.Uint64() >> (64 - bits)
		case 2:
			values[i] = r.Uint64N(limit)
		default:
			values[i] = r.Uint64N(uint64(math.Pow10(digits)))
		}
	}
	return values
}

func TestRandomIntegersAreNotCalledIdentifiers(t *testing.T) {
	samples := 1000
	if testing.Short() {
		samples = 300
	}
	if os.Getenv("CLEAVE_SOAK") == "1" {
		samples = 300_000
	}
	for seed := range uint64(samples) {
		r := rand.New(rand.NewPCG(seed, 99))
		values := drawRandomInts(r, 12+r.IntN(200))
		year := 365 * 24 * time.Hour
		now := testNow.Add(-time.Duration(r.Int64N(int64(8 * year))))
		o := Options{}
		if r.IntN(2) == 0 {
			// Also windows that reach back beyond the epochs.
			o.Back = time.Duration(1 + r.Int64N(int64(20*year)))
		}
		got, err := Recognise(values, now, o)
		if err != nil || got.Kind != RandomInt || got.AppendUnsafe {
			t.Fatalf("seed %d: %d random integers are called %v: %q, %v\n%v", seed, len(values), got.Kind, got.Evidence, err, values)
		}
	}
}

func TestCountersAreNotSnowflakesOfTheFirstDay(t *testing.T) {
	// The window reaches beyond the epoch, so small numbers are plausible too.
	o := Options{Back: 30 * 365 * 24 * time.Hour}
	for _, first := range []int{0, 1000, 1 << 22, 1 << 29} {
		for _, step := range []int{1, 7, 4096} {
			var ids []int
			for i := range 100 {
				ids = append(ids, first+step*i)
			}
			if got, err := Recognise(ids, testNow, o); err != nil || got.Kind != AutoIncrement {
				t.Errorf("from %d by %d: got %v, %q, %v", first, step, got.Kind, got.Evidence, err)
			}
		}
	}
}

func TestRandomUUIDShapesAreNotCalledVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(12, 60).Draw(t, "n")
		forced := rapid.SampledFrom([]byte{1, 6, 7}).Draw(t, "version")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var free, dressed []string
		for range n {
			var u key.UUID
			binary.BigEndian.PutUint64(u[:8], r.Uint64())
			binary.BigEndian.PutUint64(u[8:], r.Uint64())
			free = append(free, u.String())
			// The right version on random bits: its time is implausible.
			dressed = append(dressed, makeUUID(forced, r.Uint64(), r.Uint64()).String())
		}
		for _, values := range [][]string{free, dressed} {
			if got := mustRecognise(t, values); got.Kind != UUIDOther || got.AppendUnsafe {
				t.Fatalf("got %v, %q", got.Kind, got.Evidence)
			}
		}
	})
}

func TestSmallSamplesAreUnknown(t *testing.T) {
	for _, c := range testColumns {
		if c.kind == TimeText || c.kind == Date {
			continue // their form says what they are
		}
		for _, n := range []int{0, 1, 2, 11} {
			got := mustRecognise(t, sampleOf(c.make, n, 1))
			if got.Kind != Unknown || got.Confidence != 0 || got.AppendUnsafe {
				t.Errorf("%s, %d values: got %v with confidence %v", c.name, n, got.Kind, got.Confidence)
			}
		}
		// One value over and over is no larger a sample.
		if c.kind != TimeText && c.kind != Date {
			same := slices.Repeat(sampleOf(c.make, 1, 1), 30)
			if got := mustRecognise(t, same); got.Kind != Unknown {
				t.Errorf("%s, one value 30 times: got %v", c.name, got.Kind)
			}
		}
	}
}

func TestMixedSamplesReportShares(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	var values []string
	for i := range 200 {
		when := testNow.Add(time.Duration(i-200) * time.Minute)
		switch {
		case i%2 == 0:
			values = append(values, makeUUIDAt(4, when, r).String())
		case i%4 == 1:
			values = append(values, strconv.FormatInt(makeSnowflake(KnownEpochs()[0], when, r), 10))
		default:
			values = append(values, strconv.Itoa(i))
		}
	}
	got := mustRecognise(t, values)
	want := []Part{{UUIDv4, 100, 0.5}, {Snowflake, 50, 0.25}, {AutoIncrement, 50, 0.25}}
	if got.Kind != Mixed || !slices.Equal(got.Parts, want) || !got.AppendUnsafe {
		t.Errorf("got %v, %v, unsafe %v", got.Kind, got.Parts, got.AppendUnsafe)
	}
}

func TestAFewStrangersDoNotChangeTheVerdict(t *testing.T) {
	for _, c := range testColumns {
		values := sampleOf(c.make, 200, 2)
		for i := range 6 {
			values[i*30] = fmt.Sprintf("legacy<%d>", i)
		}
		got := mustRecognise(t, values)
		if got.Kind != c.kind || got.Share > 1 || c.kind != Opaque && got.Share != 0.97 {
			t.Errorf("%s: got %v with share %v", c.name, got.Kind, got.Share)
		}
	}
}

func TestFewValuesAreLowCardinality(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	countries := []string{"IN", "US", "DE", "BR"}
	var texts []string
	var codes []int
	for range 500 {
		texts = append(texts, countries[min(r.IntN(9), 3)])
		codes = append(codes, r.IntN(40))
	}
	for _, got := range []Recognition{mustRecognise(t, texts), mustRecognise(t, codes)} {
		if got.Kind != LowCardinality || got.AppendUnsafe {
			t.Errorf("got %v, %q", got.Kind, got.Evidence)
		}
	}
	today := slices.Repeat([]string{testNow.Format(time.DateOnly)}, 500)
	if got := mustRecognise(t, today); got.Kind != Date || !got.AppendUnsafe {
		t.Errorf("today's date 500 times: got %v, unsafe %v, %q", got.Kind, got.AppendUnsafe, got.Evidence)
	}
}

func TestACounterAmongPlausibleDatesStaysACounter(t *testing.T) {
	var ids []int
	for i := range 90 {
		ids = append(ids, 20_260_080+i) // passes through 20260101 to 20260131
	}
	if got := mustRecognise(t, ids); got.Kind != AutoIncrement {
		t.Errorf("got %v, %q", got.Kind, got.Evidence)
	}
}

func TestCompactDatesAreCalendarDays(t *testing.T) {
	h := compactDates(timeWindow{testNow.AddDate(-10, 0, 0), testNow})
	for n, want := range map[int64]bool{
		20240229: true, 20250229: false, 20250431: false, 20251301: false, 20250100: false,
		20260301: true, 20260302: false, 20160229: false, 2024: false, 202402290: false, -20240229: false,
	} {
		if _, ok := h.read(newIntValue(n)); ok != want {
			t.Errorf("%d: got %v, want %v", n, ok, want)
		}
	}
}

func TestSortedRandomUUIDsAreNotCalledUnsafe(t *testing.T) {
	values := sampleOf(testColumns[5].make, 100, 1)
	slices.Sort(values)
	if got := mustRecognise(t, values); got.Kind != UUIDv4 || got.AppendUnsafe || got.Rising != 1 {
		t.Errorf("got %v, unsafe %v, rising %v", got.Kind, got.AppendUnsafe, got.Rising)
	}
}

func TestBinaryAndNativeFormsAreRead(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var v7, flakes, text [][]byte
	var native []uint64
	for i := range 50 {
		when := testNow.Add(time.Duration(i-50) * time.Second)
		u := makeUUIDAt(7, when, r)
		v7 = append(v7, u[:])
		id := uint64(makeSnowflake(KnownEpochs()[0], when, r))
		flakes = append(flakes, binary.BigEndian.AppendUint64(nil, id))
		native = append(native, id)
		text = append(text, []byte(makeULID(when, r)))
	}
	for want, got := range map[Kind][]Recognition{
		UUIDv7:    {mustRecognise(t, v7)},
		Snowflake: {mustRecognise(t, flakes), mustRecognise(t, native)},
		ULID:      {mustRecognise(t, text)},
	} {
		for _, g := range got {
			if g.Kind != want {
				t.Errorf("got %v, want %v", g.Kind, want)
			}
		}
	}
}

func BenchmarkRecognise(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		for _, c := range testColumns {
			if c.name != "twitter" && c.name != "v7" && c.name != "random 64" {
				continue
			}
			values := sampleOf(c.make, n, 1)
			b.Run(fmt.Sprintf("column=%s/n=%d", strings.ReplaceAll(c.name, " ", ""), n), func(b *testing.B) {
				for b.Loop() {
					mustRecognise(b, values)
				}
			})
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		now  time.Time
		opts Options
	}{
		"no clock":     {},
		"negative":     {testNow, Options{Back: -1}},
		"far ahead":    {testNow, Options{Ahead: math.MaxInt64}},
		"small":        {testNow, Options{MinSample: 3}},
		"early epoch":  {testNow, Options{Epochs: []Epoch{{"x", time.Time{}}}}},
		"beyond 9999":  {time.Unix(maxUnix+1, 0), Options{}},
		"several ones": {time.Time{}, Options{Back: -1, MinSample: -1}},
	} {
		if _, err := Recognise([]string{"a"}, c.now, c.opts); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Order alone shows that values rise, not that they are times.
func TestSortedRandomIntegersAreNotCalledTimes(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		values := drawRandomInts(r, 100)
		slices.Sort(values)
		got := mustRecognise(t, values)
		if got.Kind != OrderedInt && got.Kind != AutoIncrement {
			t.Fatalf("seed %d: got %v, %q", seed, got.Kind, got.Evidence)
		}
	}
	// Here nearly every number is plausible, so that only order is left.
	var values []int64
	for i := range int64(100) {
		values = append(values, i*13_999_999_999_999_993)
	}
	o := Options{Back: 11 * 365 * 24 * time.Hour}
	if got, err := Recognise(values, testNow, o); err != nil || got.Kind != OrderedInt {
		t.Errorf("got %v, %q, %v", got.Kind, got.Evidence, err)
	}
}

func TestUUIDsOfAnotherVariantHaveNoVersion(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	var values []string
	for range 100 {
		u := makeUUIDAt(4, testNow, r)
		u[8] &= 0x3f // the variant of Apollo's identifiers, older than versions
		values = append(values, u.String())
	}
	if got := mustRecognise(t, values); got.Kind != UUIDOther {
		t.Errorf("got %v, %q", got.Kind, got.Evidence)
	}
}

func TestAColumnThatKeepsBringingNewValuesIsNotOfLowCardinality(t *testing.T) {
	var values []string
	for i := range 400 {
		name := fmt.Sprintf("regular %d", i*7%51)
		if i%10 == 0 {
			name = fmt.Sprintf("guest %d", i*7919%10007)
		}
		values = append(values, name)
	}
	if got := mustRecognise(t, values); got.Kind != Opaque {
		t.Errorf("got %v, %q", got.Kind, got.Evidence)
	}
}

func TestARunMayRiseOrFallByLuck(t *testing.T) {
	up := make([]*sampleValue, 12)
	for i := range up {
		up[i] = newIntValue(int64(i))
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	lg, _ := math.Lgamma(13)
	want := 2 * math.Exp(-lg) // one order of 12! each way
	for _, run := range [][]*sampleValue{up, down} {
		if got := trendOf(run); !isNear(got.chance, want) || !got.followsArrival() {
			t.Errorf("chance %v, want %v", got.chance, want)
		}
	}
}

// FuzzRecognise feeds arbitrary samples: the verdict must be well formed, and
// the same again for the same sample.
func FuzzRecognise(f *testing.F) {
	for _, c := range testColumns {
		f.Add(strings.Join(sampleOf(c.make, 14, 1), "\n"))
	}
	f.Add(strings.Repeat("0000000000000000\n7fffffffffffffff\n-9223372036854775808\n18446744073709551615\n", 4))
	f.Add(strings.Repeat("\x00\xff\x00\xff\x00\xff\x00\xff\n9999-12-31T23:59:59.999999999-23:59\n0000-00-00\n", 5))
	f.Fuzz(func(t *testing.T, data string) {
		lines := strings.Split(data, "\n")
		got := mustRecognise(t, lines)
		checkVerdict(t, got, len(lines))
		if again := mustRecognise(t, lines); !reflect.DeepEqual(got, again) {
			t.Errorf("two verdicts on one sample:\n%+v\n%+v", got, again)
		}
		checkVerdict(t, mustRecognise(t, bytes.Split([]byte(data), []byte("\n"))), len(lines))
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
	if r.Kind == Snowflake && r.Newest.After(testNow.Add(24*time.Hour)) {
		t.Errorf("a Snowflake of the future: %v", r.Newest)
	}
}
