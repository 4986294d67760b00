package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// structure is a type of the configuration as its source describes it.
type structure struct {
	about  string
	fields []member
}

// member is a field: its name in the file, its type in words, its comment.
type member struct {
	name, kind, about string
}

// read returns the struct types of a Go file by name.
func read(source []byte) (map[string]structure, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parsing types: %w", err)
	}
	structs := map[string]structure{}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if object, ok := named.Type.(*ast.StructType); ok {
				fields, err := membersOf(object)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", named.Name.Name, err)
				}
				structs[named.Name.Name] = structure{about: words(general.Doc), fields: fields}
			}
		}
	}
	return structs, nil
}

func membersOf(object *ast.StructType) ([]member, error) {
	var members []member
	for _, field := range object.Fields.List {
		if field.Tag == nil || len(field.Names) != 1 {
			return nil, errors.New("a field has no tag or is not alone on its line")
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return nil, fmt.Errorf("reading the tag of %s: %w", field.Names[0].Name, err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		members = append(members, member{name: name, kind: kind(field.Type), about: words(field.Doc)})
	}
	return members, nil
}

// words returns a comment as one line.
func words(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// kind says in the words of YAML what a Go type holds.
func kind(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return kind(t.X)
	case *ast.MapType:
		return "map"
	case *ast.ArrayType:
		return "list of " + kind(t.Elt)
	case *ast.SelectorExpr:
		return identKind(t.Sel.Name)
	case *ast.Ident:
		return identKind(t.Name)
	default:
		return fmt.Sprintf("%T", t)
	}
}

func identKind(name string) string {
	switch name {
	case "Duration":
		return "duration"
	case "LabelSelector":
		return "label selector"
	case "bool":
		return "true or false"
	case "string":
		return "text"
	case "int32":
		return "whole number"
	case "MemoryDefinition", "DisruptionBudgets", "DiskSource", "StallType", "WithinRequests", "Annotations", "TaintNode":
		return "word"
	case "Queue":
		return "[queue](#queues)"
	default:
		return fmt.Sprintf("[block](#%s)", strings.ToLower(name))
	}
}

// entries returns a map on one line, in the order of its keys.
func entries(values map[string]any) string {
	if len(values) == 0 {
		return "none"
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("`%s: %v`", key, values[key]))
	}
	return strings.Join(parts, "<br>")
}

func list(values []any) string {
	if len(values) == 0 {
		return "none"
	}
	var parts []string
	for _, v := range values {
		parts = append(parts, fmt.Sprintf("`%v`", v))
	}
	return strings.Join(parts, ", ")
}
