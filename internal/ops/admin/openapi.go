package admin

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// openAPIDocument is the OpenAPI document. It is made of the table of routes and the types of
// package api, by a test that also holds it against them.
//
//go:embed openapi.json
var openAPIDocument []byte

// object is one of JSON. Its names are written in order.
type object = map[string]any

// makeOpenAPI makes the OpenAPI document of routes.
func makeOpenAPI(routes []route) ([]byte, error) {
	s := &schemaSet{byName: object{}}
	failure := s.schemaOf(reflect.TypeFor[api.Failure]())
	paths := object{}
	for i := range routes {
		rt := &routes[i]
		if paths[rt.path] == nil {
			paths[rt.path] = object{}
		}
		paths[rt.path].(object)[strings.ToLower(rt.method)] = makeOperation(rt, s, failure)
	}
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Cleave", "version": "v1",
			"description": "What operators see and change of a Cleave server. See docs/http.md.",
		},
		"paths": paths,
		"components": object{
			"schemas":         s.byName,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", " ")
	return append(text, '\n'), err
}

// makeOperation is one method of a path.
func makeOperation(rt *route, s *schemaSet, failure object) object {
	op := object{"operationId": rt.name, "summary": rt.summary}
	params := []any{}
	if strings.Contains(rt.path, "{id}") {
		params = append(params, object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range rt.query {
		schema := object{"type": p.kind}
		switch p.kind {
		case "key":
			schema = object{"type": "string"}
		case paramRepeated:
			schema = object{"type": "array", "items": object{"type": "string"}}
		}
		params = append(params, object{"name": p.name, "in": "query", "description": p.description, "schema": schema})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if rt.request != nil {
		schema := s.schemaOf(rt.request)
		s.byName[schemaName(rt.request)].(object)["additionalProperties"] = false // others are refused
		op["requestBody"] = object{"required": true, "content": newJSONContent(schema)}
	}
	answers := object{"default": object{"description": "Why there is no other answer.", "content": newJSONContent(failure)}}
	for _, status := range rt.statuses {
		answer := object{"description": http.StatusText(status)}
		switch {
		case rt.mediaType != "":
			answer["content"] = object{strings.Split(rt.mediaType, ";")[0]: object{}}
		default:
			answer["content"] = newJSONContent(s.schemaOf(rt.response))
		}
		answers[strconv.Itoa(status)] = answer
	}
	op["responses"] = answers
	switch {
	case rt.isAction():
		op["security"] = []any{object{"token": []any{}}}
	case !rt.public: // on loopback it needs none
		op["security"] = []any{object{}, object{"token": []any{}}}
	}
	return op
}

func newJSONContent(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

// schemaSet are those of the types that were met.
type schemaSet struct{ byName object }

// schemaOf returns the schema of a type, a reference if it has a name.
func (s *schemaSet) schemaOf(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[api.Key]():
		s.byName["Key"] = object{"type": "string", "description": `Bytes: printable ASCII stands for itself, a backslash is \\, every other byte is \xNN.`, "pattern": `^([ -\[\]-~]|\\\\|\\x[0-9a-f]{2})*$`}
		return schemaRef("Key")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schemaOf(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return object{"type": "array", "items": s.schemaOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schemaOf(t.Elem())}
	case reflect.Struct:
		return s.structSchema(t)
	}
	panic("admin: no schema for " + t.String())
}

func schemaRef(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// structSchema is the schema of a struct. What may be left out is not required.
func (s *schemaSet) structSchema(t reflect.Type) object {
	name := schemaName(t)
	if s.byName[name] != nil {
		return schemaRef(name)
	}
	properties, required := object{}, []any{}
	s.byName[name] = object{} // it may contain itself
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		properties[tag] = s.schemaOf(f.Type)
		if options != "omitempty" {
			required = append(required, tag)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	s.byName[name] = schema
	return schemaRef(name)
}

// schemaName is the name of a type in the document. A page of shards is a ShardPage.
func schemaName(t reflect.Type) string {
	name := t.Name()
	if outer, inner, ok := strings.Cut(name, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		return inner[strings.LastIndexByte(inner, '.')+1:] + outer
	}
	return name
}
