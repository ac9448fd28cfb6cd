package advisor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cleavekv/cleave/key"
)

// purpose is what a column seems to be for, by its name or else by its values. Without queries it is all
// that hints at what programs ask for.
type purpose uint8

const (
	// purposeUnclear is a number or a word whose name says nothing.
	purposeUnclear purpose = iota
	// purposeIdentifier names a thing: rows of one are asked for together.
	purposeIdentifier
	// purposeCode looks like an identifier, such as G0123, under a name that says nothing.
	purposeCode
	// purposeContact identifies somebody until it changes: an address of mail or of a network.
	purposeContact
	// purposePlace is shared by many things that have little to do with each other.
	purposePlace
	// purposeTime is when something was. One time alone is hardly asked for.
	purposeTime
	// purposeAttribute is an amount, a state or a text: it changes, and hardly anybody asks for one value.
	purposeAttribute
)

// purposePoints is what a key is charged, without queries, for its least likely column. A key of an
// attribute is no better than grade B. The other steps order keys that are otherwise alike.
var purposePoints = [...]float64{
	purposeUnclear: 6, purposeIdentifier: 0, purposeCode: 1, purposeContact: 6, purposePlace: 10, purposeTime: 10, purposeAttribute: 20,
}

// purposeWords are words in names of columns, the most telling lists first: customer_status is a status.
var purposeWords = []struct {
	purpose purpose
	words   string
}{
	{purposeAttribute, `count counts amount amounts price prices cost costs total totals sum subtotal tax fee discount quantity qty size bytes length width height
		weight depth score scores rating rank value values val reading temperature temp celsius humidity pressure voltage speed lat latitude lon lng longitude percent pct
		ratio rate duration elapsed latency ms seconds minutes age balance level priority severity status state type kind category class flag active enabled deleted
		gender sex color colour unit units currency title subject description desc comment comments text body message content note notes remark summary payload data
		json xml url uri link path agent browser method quality version birth birthday birthdate dob words pages views likes clicks visits points grade is has`},
	{purposePlace, `zip zipcode postcode postal plz city town region country state province county district street language locale lang timezone name firstname lastname surname`},
	{purposeTime, `at time date day timestamp ts datetime when created updated modified`},
	{purposeContact, `email mail phone mobile tel ip address addr`},
	{purposeIdentifier, `id ids uuid guid key pk fk no nr num number code ref reference identifier handle slug sku iban isbn imei mac vin hash token username login
		tenant customer client user account owner author member person patient employee student player driver passenger buyer seller vendor supplier merchant shop store
		sender recipient receiver subscriber org organization organisation company workspace team group project site device sensor meter machine vehicle car host hostname
		node server station room channel thread conversation chat topic order invoice booking ticket trip ride flight session cart document file folder post item product
		article asset page post partition geohash cell tile trace span request campaign`},
}

// tellingWords decide when they end a name, whatever stands before: status_id is an identifier.
const tellingWords = "id ids uuid guid key pk no nr num number code ref reference"

// purposeOf finds what a column is for. Values are some of it.
func (c *column) purposeOf(values []string) purpose {
	if c.isTime() {
		return purposeTime
	}
	if words := wordsOf(c.name); len(words) > 0 {
		if containsWord(tellingWords, words[len(words)-1]) {
			return purposeIdentifier
		}
		// The last word says what it is, those before it of what. A prefix such as is_ says it at once.
		for _, word := range []string{words[len(words)-1], words[0]} {
			for _, list := range purposeWords {
				if containsWord(list.words, word) {
					return list.purpose
				}
			}
		}
	}
	return c.purposeByValues(values)
}

// doubt is how little hints at programs that ask for its values.
func (c *column) doubt() float64 {
	if c.asked {
		return 0
	}
	return purposePoints[c.purpose]
}

// purposeByValues judges a column whose name says nothing.
func (c *column) purposeByValues(values []string) purpose {
	switch {
	case c.typ == typeBool || c.typ == typeFloat:
		return purposeAttribute
	case c.typ == typeUUID || c.recognized.AppendUnsafe:
		return purposeIdentifier
	case c.typ == typeInt:
		return purposeUnclear
	}
	spaces, digits := 0, 0
	for _, v := range values {
		if strings.ContainsAny(v, " \t\n") {
			spaces++
		}
		if strings.ContainsAny(v, "0123456789") {
			digits++
		}
	}
	switch {
	case 2*spaces > len(values):
		return purposeAttribute // a text
	case 2*digits > len(values):
		return purposeCode
	}
	return purposeUnclear
}

func containsWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// wordsOf cuts a name at what is no letter or digit, and where capitals begin: customerID, order_no.
func wordsOf(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// asGood is how many points another key may have less and count as good as the best.
const asGood = 5

// addGuess says what the ranking rests on where queries are not known, and how to give them.
func (r *Report) addGuess(a *analysis) {
	if len(r.Candidates) == 0 || r.Candidates[0].Grade == "?" {
		return
	}
	leads := []string{}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		layout, err := key.ParseLayout(c.Layout)
		if err != nil || c.Grade == "?" || c.Score < r.Candidates[0].Score-asGood {
			continue
		}
		first := layout.Fields()[0]
		col := a.columnNamed(first.Column)
		if col != nil && first.Salts == 0 && col.doubt() < purposePoints[purposeAttribute] && !slices.Contains(leads, col.name) {
			leads = append(leads, col.name)
		}
	}
	text := "Without queries this rests on the rows alone, and on a guess: that programs ask for what looks like an identifier."
	if len(leads) > 1 {
		text += fmt.Sprintf(" By that, %s are as good; which of them is asked for decides.", listWords(leads))
	}
	example := "customer"
	if len(leads) > 0 {
		example = leads[0]
	}
	columns, err := json.Marshal([]string{example})
	if err != nil {
		columns = []byte("[]")
	}
	r.Notes = append(r.Notes, fmt.Sprintf(`%s Give --queries a file that has a line for each kind of request, such as {"op": "select", "columns": %s, "count": 90}.`, text, columns))
}

// listWords joins words with commas and a last and.
func listWords(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
