package admin

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

// document is the OpenAPI document. It is made of the table of routes and the types of
// package api, by a test that also holds it against them.
//
//go:embed openapi.json
var document []byte

// object is one of JSON. Its names are written in order.
type object = map[string]any

// describe makes the OpenAPI document of routes.
func describe(routes []route) ([]byte, error) {
	s := &schemas{all: object{}}
	failure := s.of(reflect.TypeFor[api.Failure]())
	paths := object{}
	for i := range routes {
		rt := &routes[i]
		if paths[rt.path] == nil {
			paths[rt.path] = object{}
		}
		paths[rt.path].(object)[strings.ToLower(rt.method)] = operation(rt, s, failure)
	}
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Cleave", "version": "v1",
			"description": "What operators see and change of a Cleave server. See docs/http.md.",
		},
		"paths": paths,
		"components": object{
			"schemas":         s.all,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", " ")
	return append(text, '\n'), err
}

// operation is one method of a path.
func operation(rt *route, s *schemas, failure object) object {
	op := object{"operationId": rt.name, "summary": rt.summary}
	params := []any{}
	if strings.Contains(rt.path, "{id}") {
		params = append(params, object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range rt.query {
		kind := p.kind
		if kind == "key" {
			kind = "string"
		}
		params = append(params, object{"name": p.name, "in": "query", "description": p.meaning, "schema": object{"type": kind}})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if rt.request != nil {
		schema := s.of(rt.request)
		s.all[schemaName(rt.request)].(object)["additionalProperties"] = false // others are refused
		op["requestBody"] = object{"required": true, "content": jsonOf(schema)}
	}
	answers := object{"default": object{"description": "Why there is no other answer.", "content": jsonOf(failure)}}
	for _, status := range rt.statuses {
		answer := object{"description": http.StatusText(status)}
		switch {
		case rt.text != "":
			answer["content"] = object{strings.Split(rt.text, ";")[0]: object{}}
		default:
			answer["content"] = jsonOf(s.of(rt.answer))
		}
		answers[strconv.Itoa(status)] = answer
	}
	op["responses"] = answers
	switch {
	case rt.acts():
		op["security"] = []any{object{"token": []any{}}}
	case !rt.public: // on loopback it needs none
		op["security"] = []any{object{}, object{"token": []any{}}}
	}
	return op
}

func jsonOf(schema object) object { return object{"application/json": object{"schema": schema}} }

// schemas are those of the types that were met.
type schemas struct{ all object }

// of returns the schema of a type, a reference if it has a name.
func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[api.Key]():
		s.all["Key"] = object{"type": "string", "description": `Bytes: printable ASCII stands for itself, a backslash is \\, every other byte is \xNN.`, "pattern": `^([ -\[\]-~]|\\\\|\\x[0-9a-f]{2})*$`}
		return ref("Key")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
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
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	panic("admin: no schema for " + t.String())
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// structure is the schema of a struct. What may be left out is not required.
func (s *schemas) structure(t reflect.Type) object {
	name := schemaName(t)
	if s.all[name] != nil {
		return ref(name)
	}
	properties, required := object{}, []any{}
	s.all[name] = object{} // it may contain itself
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		properties[tag] = s.of(f.Type)
		if options != "omitempty" {
			required = append(required, tag)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	s.all[name] = schema
	return ref(name)
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
