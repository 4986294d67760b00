package main

import (
	"bytes"
	_ "embed" // for the page's prose
	"errors"
	"fmt"
	"strings"
	"text/template"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/config"
)

//go:embed page.md.tmpl
var prose string

// render returns the page for the types in source.
func render(source []byte) ([]byte, error) {
	structs, err := read(source)
	if err != nil {
		return nil, err
	}
	defaults, err := yaml.Marshal(config.Default())
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err = yaml.Unmarshal(defaults, &values); err != nil {
		return nil, fmt.Errorf("reading defaults: %w", err)
	}
	page, err := template.New("page").Option("missingkey=error").Funcs(template.FuncMap{
		"about": func(name string) string { return structs[name].about },
		"table": func(name, block string) (string, error) {
			defaults, _ := values[block].(map[string]any) // "-" is a type without defaults
			if block == "" {
				defaults = values
			}
			return table(structs, name, defaults)
		},
		"faults": faults,
	}).Parse(prose)
	if err != nil {
		return nil, fmt.Errorf("parsing template: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, nil); err != nil {
		return nil, fmt.Errorf("writing page: %w", err)
	}
	return b.Bytes(), nil
}

// table returns the fields of a type as a Markdown table. Defaults holds the
// default value of each field; nil leaves the column out.
func table(structs map[string]structure, name string, defaults map[string]any) (string, error) {
	s, found := structs[name]
	if !found {
		return "", fmt.Errorf("no type %s", name)
	}
	var b strings.Builder
	if defaults == nil {
		b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
	} else {
		b.WriteString("| Field | Type | Default | Meaning |\n|---|---|---|---|\n")
	}
	for _, f := range s.fields {
		fmt.Fprintf(&b, "| `%s` | %s |", f.name, f.kind)
		meaning := f.about
		if defaults != nil {
			value := shown(f, defaults[f.name])
			fmt.Fprintf(&b, " %s |", value)
			meaning = withoutDefault(meaning, value)
		}
		fmt.Fprintf(&b, " %s |\n", strings.ReplaceAll(meaning, "|", `\|`))
	}
	return b.String(), nil
}

// withoutDefault leaves out what a comment says last of a missing field, where the column of the defaults
// has the same.
func withoutDefault(about, value string) string {
	for _, written := range []string{value, strings.Trim(value, "`")} {
		about = strings.TrimSuffix(about, " Unset means "+written+".")
	}
	return about
}

// shown returns a default value on one line.
func shown(f member, value any) string {
	if value == nil {
		return "none"
	}
	if strings.HasPrefix(f.kind, "[") { // a block with a table of its own
		return "see there"
	}
	switch v := value.(type) {
	case map[string]any:
		return entries(v)
	case []any:
		return list(v)
	case float64:
		return fmt.Sprintf("`%d`", int64(v))
	case string:
		if f.kind == "duration" {
			return "`" + short(v) + "`"
		}
		return fmt.Sprintf("`%v`", v)
	default:
		return fmt.Sprintf("`%v`", v)
	}
}

// short drops the zero parts that Go writes at the end of a duration: 5m0s.
func short(duration string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(duration, zero) {
			duration = strings.TrimSuffix(duration, zero[1:])
		}
	}
	return duration
}

// faults returns what `evictd config validate` says about a file.
func faults(file string) (string, error) {
	_, err := config.ParseFile("evictd.yaml", []byte(file))
	invalid, found := errors.AsType[utilerrors.Aggregate](err)
	if !found {
		return "", fmt.Errorf("the example was to have faults: %w", err)
	}
	lines := make([]string, 0, len(invalid.Errors()))
	for _, fault := range invalid.Errors() {
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "\n"), nil
}
