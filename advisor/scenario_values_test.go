package advisor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// moreScenarios are tables whose values are hard to read: nulls, wide rows, text of all languages,
// times in several forms, columns that say nothing, rows that come twice.
var moreScenarios = []scenario{
	{
		name: "names in all languages", columns: "id имя город",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprintf("客户-%d-ü", r.IntN(6000)), pick(r, "Москва 東京 São·Paulo")}
		},
		best: []string{"column2:string"}, worst: "column3", pattern: "low cardinality",
	},
	{
		name: "a column that is always the same", columns: "version account body",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{"v2", fmt.Sprint("account-", r.IntN(4000)), r.Uint64()}
		},
		best: []string{"account:string"}, worst: "version", pattern: "constant",
	},
	{
		name: "a column without any value", columns: "user deleted_at",
		row:  func(r *rand.Rand, i int, at time.Time) []any { return []any{fmt.Sprint("user-", r.IntN(5000)), nil} },
		best: []string{"user:string"}, worst: "deleted_at", pattern: "empty",
	},
	{
		name: "rows that come three times", columns: "id user",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprintf("%016x", uint64(i/3)*0x9e3779b97f4a7c15), fmt.Sprint("user-", i/3*7919%3001)}
		},
		best: []string{"user:string", "id:string"},
	},
	{
		name: "dates alone beside a customer", columns: "day customer amount",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{at.Format(time.DateOnly), fmt.Sprint("c", r.IntN(7000)), r.Float64()}
		},
		best: []string{"customer:string"}, worst: "day", pattern: "monotonic",
	},
	{
		name: "times with a zone and a blank", columns: "at customer",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{at.Format("2006-01-02 15:04:05.000-07:00"), fmt.Sprint("c", r.IntN(7000))}
		},
		best: []string{"customer:string"}, worst: "hour(at)",
	},
	{
		name: "seconds since 1970", columns: "at meter",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{at.Unix(), fmt.Sprintf("m-%04x", r.IntN(5000))}
		},
		best: []string{"meter:string"}, worst: "day(at)", pattern: "monotonic",
	},
	{
		name: "forty columns", columns: "user " + strings.TrimSpace(strings.Repeat("f ", 39)),
		row: func(r *rand.Rand, i int, at time.Time) []any {
			row := []any{fmt.Sprint("user-", r.IntN(8000))}
			for range 39 {
				row = append(row, r.IntN(3))
			}
			return row
		},
		best: []string{"user:string"}, worst: "f", pattern: "low cardinality",
	},
	{
		name: "texts too long for a key", columns: "document owner",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{strings.Repeat(fmt.Sprint(r.Uint64(), " "), 20), fmt.Sprint("owner-", r.IntN(5000))}
		},
		best: []string{"owner:string"},
	},
	{
		name: "owner that half of the rows lack", columns: "owner device",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			var owner any
			if i%2 == 0 {
				owner = fmt.Sprint("owner-", r.IntN(9000))
			}
			return []any{owner, fmt.Sprint("device-", r.IntN(3000))}
		},
		best: []string{"device:string"}, worst: "owner", pattern: "null-heavy",
	},
	{
		name: "a flag", columns: "paid invoice",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{r.IntN(2) == 0, fmt.Sprintf("inv-%x", r.Uint64())}
		},
		kinds: []partition.Kind{partition.Hash},
		best:  []string{"invoice:string"}, worst: "paid", pattern: "low cardinality",
	},
	{
		name: "numbers with leading zeros", columns: "zip amount",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprintf("%05d", r.IntN(20_000)), r.Float64()}
		},
		best: []string{"zip:string"},
	},
	{
		name: "numbers, a few of which are words", columns: "account note",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			if i%500 == 499 {
				return []any{"unknown-" + fmt.Sprint(i), "x"}
			}
			return []any{r.IntN(6000), "x"}
		},
		best: []string{"account"}, worst: "note", pattern: "constant",
	},
	{
		name: "negative numbers", columns: "place value",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{r.IntN(10_000) - 5000, r.Float64()}
		},
		best: []string{"place:int"},
	},
	{
		name: "ULIDs and a channel", columns: "id channel",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{ulidOf(r, at), fmt.Sprint("channel-", r.IntN(3000))}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"channel:string"}, worst: "id", pattern: "monotonic",
	},
	{
		name: "queries by time of a device", columns: "device at value",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint("device-", r.IntN(2500)), at.Format(time.RFC3339Nano), r.Float64()}
		},
		queries: `{"op":"select","filter":{"device":"device-1","at":{"ge":"2026-10-01"}},"count":100} {"op":"insert","columns":["device"],"count":900}`,
		kinds:   []partition.Kind{partition.Range},
		best:    []string{"device:string"}, worst: "at",
	},
	{
		name: "transfers within an account", columns: "id account branch",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			account := r.IntN(6000)
			return []any{uuidOf(r), fmt.Sprint("account-", account), fmt.Sprint("branch-", account%300)}
		},
		queries: `{"op":"update","filter":{"account":"account-1"},"set":["id"],"txn":"1"} {"op":"update","filter":{"account":"account-1"},"txn":"1"} {"op":"select","filter":{"account":"account-2"},"count":50}`,
		best:    []string{"account:string"}, worst: "id", grade: "B",
	},
	{
		name: "zipf of many users", columns: "id user",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprint("user-", min(r.IntN(5000), r.IntN(5000)))}
		},
		best: []string{"user:string"},
	},
}

// ulidOf returns a ULID: 48 bits of milliseconds and 80 of chance, in base 32.
func ulidOf(r *rand.Rand, at time.Time) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var text [26]byte
	ms := uint64(at.UnixMilli())
	for i := 9; i >= 0; i-- {
		text[i] = digits[ms&31]
		ms >>= 5
	}
	for i := 10; i < 26; i++ {
		text[i] = digits[r.IntN(32)]
	}
	return string(text[:])
}
