package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/cleavekv/cleave/advisor/internal/recordtext"
)

type address struct {
	City string `parquet:"city"`
}

type order struct {
	ID      int64            `parquet:"id"`
	User    *string          `parquet:"user,optional"`
	Token   [16]byte         `parquet:"token,uuid"`
	At      time.Time        `parquet:"at,timestamp(millisecond)"`
	Day     int32            `parquet:"day,date"`
	Price   int64            `parquet:"price,decimal(2:10)"`
	Paid    bool             `parquet:"paid"`
	Weight  float64          `parquet:"weight"`
	Raw     []byte           `parquet:"raw"`
	Old     deprecated.Int96 `parquet:"old"`
	Big     uint64           `parquet:"big"`
	Address address          `parquet:"address"`
	Tags    []string         `parquet:"tags,list"`
}

// writeOrders returns a Parquet file.
func writeOrders(t *testing.T, orders []order, groupRows int) []byte {
	t.Helper()
	var file bytes.Buffer
	w := parquet.NewGenericWriter[order](&file, parquet.MaxRowsPerRowGroup(int64(groupRows)), parquet.Compression(&parquet.Snappy))
	if _, err := w.Write(orders); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func readText(file []byte) (string, error) {
	r, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return "", err
	}
	return recordtext.Read(r)
}

func TestReader_ReadsEachTypeAsText(t *testing.T) {
	user := "Ünï"
	file := writeOrders(t, []order{
		{
			ID: -7, User: &user, Token: [16]byte{0: 0xab, 15: 1}, At: time.Date(2026, 10, 1, 12, 0, 0, 5e6, time.UTC), Day: 20_000,
			Price: -1999, Paid: true, Weight: 3, Raw: []byte{0xff, 0}, Old: deprecated.Int96{1e9, 0, 2_440_588 + 1}, Big: 1 << 63, Address: address{"Rome"}, Tags: []string{"a", "b"},
		},
		{Price: 5, At: time.UnixMilli(-1).UTC(), Old: deprecated.Int96{0, 0, 2_440_588}, Raw: []byte("text")},
	}, 10)
	got, err := readText(file)
	want := "id user token at day price paid weight raw old big address.city: " +
		"-7,Ünï,ab000000-0000-0000-0000-000000000001,2026-10-01T12:00:00.005Z,2024-10-04,-19.99,true,3.0,ff00,1970-01-02T00:00:01Z,9223372036854775808,Rome | " +
		"0,NULL,00000000-0000-0000-0000-000000000000,1969-12-31T23:59:59.999Z,1970-01-01,0.05,false,0.0,text,1970-01-01T00:00:00Z,0, | " +
		"column tags.list.element: left out: it has lists"
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

func TestReader_ReadsAllRowGroupsInOrder(t *testing.T) {
	orders := make([]order, 5000)
	for i := range orders {
		orders[i].ID = int64(i)
		if i%3 == 0 {
			user := fmt.Sprint("user-", i)
			orders[i].User = &user
		}
	}
	got, err := readText(writeOrders(t, orders, 700))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(got[strings.Index(got, ": ")+2:], " | ")
	if len(rows) != len(orders)+1 {
		t.Fatalf("%d rows, want %d", len(rows)-1, len(orders))
	}
	for i := range orders {
		user := "NULL"
		if i%3 == 0 {
			user = fmt.Sprint("user-", i)
		}
		if want := fmt.Sprintf("%d,%s,", i, user); !strings.HasPrefix(rows[i], want) {
			t.Fatalf("row %d: got %s, want %s…", i, rows[i], want)
		}
	}
}

// Whatever is wrong with a file is an error, never a panic.
func TestReader_RefusesDamage(t *testing.T) {
	file := writeOrders(t, make([]order, 3000), 1000)
	for name, bad := range map[string][]byte{"empty": nil, "text": []byte("id,user\n1,2\n"), "cut": file[:len(file)-9], "half": file[:len(file)/2], "magic alone": []byte("PAR1PAR1")} {
		if _, err := readText(bad); !errors.Is(err, ErrFile) {
			t.Errorf("%s: got %v, want %v", name, err, ErrFile)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		bad := bytes.Clone(file)
		for range 1 + r.IntN(8) {
			bad[r.IntN(len(bad))] ^= byte(1 << r.IntN(8))
		}
		if _, err := readText(bad); err != nil && !errors.Is(err, ErrFile) {
			t.Errorf("got %v, want %v", err, ErrFile)
		}
	}
}
