package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// schema checks values against the part of JSON Schema that the document uses. It is
// stricter in one thing: an answer has no field that is not described.
type schema struct{ all map[string]any }

func documented() (*schema, map[string]any, error) {
	var d map[string]any
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, nil, err
	}
	return &schema{d["components"].(map[string]any)["schemas"].(map[string]any)}, d["paths"].(map[string]any), nil
}

// check returns what is wrong with a value.
func (s *schema) check(is map[string]any, value any, at string) []string {
	if ref, ok := is["$ref"].(string); ok {
		return s.check(s.all[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any), value, at)
	}
	switch is["type"] {
	case "object":
		return s.object(is, value, at)
	case "array":
		list, ok := value.([]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %T, no list", at, value)}
		}
		var wrong []string
		for i, v := range list {
			wrong = append(wrong, s.check(is["items"].(map[string]any), v, fmt.Sprint(at, "[", i, "]"))...)
		}
		return wrong
	}
	return scalar(is, value, at)
}

func (s *schema) object(is map[string]any, value any, at string) (wrong []string) {
	o, ok := value.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %T, no object", at, value)}
	}
	properties, _ := is["properties"].(map[string]any)
	if more, ok := is["additionalProperties"].(map[string]any); ok {
		for name, v := range o {
			wrong = append(wrong, s.check(more, v, at+"."+name)...)
		}
		return wrong
	}
	required, _ := is["required"].([]any)
	for _, name := range required {
		if _, ok := o[name.(string)]; !ok {
			wrong = append(wrong, at+" lacks "+name.(string))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if p, ok := properties[name].(map[string]any); ok {
			wrong = append(wrong, s.check(p, o[name], at+"."+name)...)
		} else {
			wrong = append(wrong, at+"."+name+" is not described")
		}
	}
	return wrong
}

func scalar(is map[string]any, value any, at string) []string {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	_, isBool := value.(bool)
	bad := func(what string) []string { return []string{fmt.Sprintf("%s is %v, %s", at, value, what)} }
	switch is["type"] {
	case "string":
		if !isText {
			return bad("no text")
		}
		if is["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339, text); err != nil {
				return bad("no time")
			}
		}
		if p, ok := is["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(text) {
			return bad("not of the form " + p)
		}
	case "boolean":
		if !isBool {
			return bad("neither true nor false")
		}
	case "number", "integer":
		if !isNumber || is["type"] == "integer" && number != float64(int64(number)) {
			return bad("no " + is["type"].(string))
		}
		if least, ok := is["minimum"].(float64); ok && number < least {
			return bad("too small")
		}
	default:
		return bad(fmt.Sprintf("of an unknown type %v", is["type"]))
	}
	return nil
}
