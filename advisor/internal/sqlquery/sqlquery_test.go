package sqlquery

import (
	"encoding/json"
	"testing"
)

func TestRead_FindsWhatIsAsked(t *testing.T) {
	columns := []string{"id", "customer", "region", "created_at", "Order"}
	for text, want := range map[string]string{
		"SELECT * FROM orders WHERE id = $1": `select [id] {} []`,
		"select id from public.orders o where o.customer = $1 and region = $2 order by id limit $3": `select [customer region] {} []`,
		"SELECT * FROM orders WHERE customer = $1 AND created_at >= $2 AND created_at < $3":         `select [customer] {created_at} []`,
		"SELECT * FROM orders WHERE created_at BETWEEN $1 AND $2":                                   `select [] {created_at} []`,
		"SELECT count(*) FROM orders":                                                                             `select [] {} []`,
		"SELECT * FROM orders WHERE customer = $1 OR region = $2":                                                 `select [] {} []`,
		"SELECT * FROM orders WHERE (customer = $1 AND (region = $2))":                                            `select [customer region] {} []`,
		"SELECT * FROM orders WHERE NOT (customer = $1)":                                                          `select [] {} []`,
		"SELECT * FROM orders WHERE customer <> $1 AND region IN ($2, $3)":                                        `select [region] {} []`,
		"SELECT * FROM orders WHERE id = ANY($1)":                                                                 `select [id] {} []`,
		"SELECT * FROM orders WHERE id IN (SELECT order_id FROM lines WHERE region = $1) AND customer = $2":       `select [customer] {} []`,
		"SELECT * FROM users u JOIN orders AS o ON o.customer = u.id WHERE u.region = $1 AND o.region = $2":       `select [region] {} []`,
		"SELECT * FROM users u, orders o WHERE o.customer = u.id AND o.id = $1":                                   `select [id] {} []`,
		`SELECT * FROM "orders" WHERE "Order" = $1 -- customer = $2`:                                              `select [Order] {} []`,
		"/* x */ UPDATE orders SET region = $1, customer = coalesce(customer, $2) WHERE id = $3 RETURNING region": `update [id] {} [region customer]`,
		"UPDATE orders SET (region, customer) = ($1, $2) WHERE id = $3":                                           `update [id] {} [region customer]`,
		"DELETE FROM ONLY orders WHERE customer = $1":                                                             `delete [customer] {} []`,
		"INSERT INTO orders (id, customer) VALUES ($1, $2)":                                                       `insert [] {} []`,
		"SELECT * FROM orders WHERE customer = 'it''s' FOR UPDATE":                                                `select [customer] {} []`,
		"SELECT * FROM orders_old WHERE id = $1":                                                                  ``,
		"SELECT * FROM archive.orders WHERE id = $1":                                                              ``,
		"VACUUM orders":                  ``,
		"":                               ``,
		"SELECT 'from orders where id =": ``,
		"SELECT * FROM orders WHERE id":  `select [] {} []`,
	} {
		got := ""
		if q, ok := Read(text, Options{Schema: "public", Table: "orders", Columns: columns}); ok {
			got = q.Op + " " + formatList(t, q.Columns) + " {"
			for name := range q.Filter {
				got += name
			}
			got += "} " + formatList(t, q.Set)
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func formatList(t *testing.T, list []string) string {
	t.Helper()
	out := "["
	for i, s := range list {
		if i > 0 {
			out += " "
		}
		out += s
	}
	return out + "]"
}

// Any text is read without a panic.
func FuzzRead(f *testing.F) {
	f.Add("SELECT * FROM orders o WHERE o.id = $1 AND (a IN (SELECT 1)) OR \"x\" = 'y'")
	f.Add("UPDATE orders SET (a, b) = ($1) WHERE NOT (id")
	f.Fuzz(func(t *testing.T, text string) {
		q, _ := Read(text, Options{Schema: "public", Table: "orders", Columns: []string{"id", "a", "x"}, Values: true, Parameters: []string{"p"}})
		if _, err := json.Marshal(q); err != nil {
			t.Fatal(err)
		}
	})
}

// The values that a statement has say which partitions a transaction asks for.
func TestRead_Values_AreThoseOfTheStatement(t *testing.T) {
	o := Options{Schema: "public", Table: "orders", Columns: []string{"id", "customer", "ts"}, Values: true, Parameters: []string{"7", "it's"}}
	for text, want := range map[string]string{
		"SELECT * FROM orders WHERE customer = $2 AND id = $1":                                   `{"customer":"it's","id":"7"} []`,
		"SELECT * FROM orders WHERE customer = 'it''s' AND id = 8;":                              `{"customer":"it's","id":"8"} []`,
		"SELECT * FROM orders WHERE (customer = 'a') AND ts > now()":                             `{"customer":"a","ts":{"ge":null}} []`,
		"SELECT * FROM orders WHERE customer = $3 AND id = 7 + 1":                                `{} [customer id]`,
		"SELECT * FROM orders WHERE customer IN ('a', 'b')":                                      `{} [customer]`,
		"UPDATE orders SET ts = now() WHERE id = $1":                                             `{"id":"7"} []`,
		"INSERT INTO orders (id, ts, customer) VALUES ($1, to_timestamp(1, 2), 'c') RETURNING 1": `{"customer":"c","id":"7"} []`,
		"INSERT INTO orders (id, customer) VALUES ((SELECT 1), $2)":                              `{"customer":"it's"} []`,
		"INSERT INTO orders VALUES ($1, $2)":                                                     `{} []`,
		"INSERT INTO orders (id) SELECT 1":                                                       `{} []`,
	} {
		q, ok := Read(text, o)
		filter := "{}"
		if q.Filter != nil {
			b, err := json.Marshal(q.Filter)
			if err != nil {
				t.Fatal(err)
			}
			filter = string(b)
		}
		if got := filter + " " + formatList(t, q.Columns); !ok || got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
