package config

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/testing/must"
)

// faultsIn returns the faults of a file, none of them in words of Go or of a library.
func faultsIn(t *testing.T, err error) (all []string) {
	t.Helper()
	invalid, found := errors.AsType[utilerrors.Aggregate](err)
	if !found {
		t.Fatalf("an error without faults: %v", err)
	}
	for _, fault := range invalid.Errors() {
		all = append(all, fault.Error())
	}
	return all
}

// goWords reports whether a text has words of Go or of a library.
func goWords(text string) bool {
	return regexp.MustCompile(`(?i:json:|marshal|\bu?int(8|16|32|64)?\b|float|\bbool|struct|interface|strict decoding|reflect|\barray|\bobject\b)|` +
		`(^|\s)yaml:|map\[|\bv1\.|<nil>|%!|0x[0-9a-f]{6}`).MatchString(text)
}

// What a fault advises.
var (
	faultParts = regexp.MustCompile(`^evictd\.yaml:\d+: ([^ ]+): (.*)$`)
	toWrite    = regexp.MustCompile(`(?:write|like|such as|or|,|values:) ("[^"]*"|\["[^"]*"\]|true|false|-?\d+)`)
	toRename   = regexp.MustCompile(`did you mean (\S+)\?`)
	toRemove   = regexp.MustCompile(`remove (it|this)\b`)
	steps      = regexp.MustCompile(`\[([^\]]*)\]|([^.\[\]]+)`)
)

// follow does what each fault of a file advises, and checks that its field is right then, and no other one wrong.
func follow(t *testing.T, file string) {
	t.Helper()
	_, err := ParseFile("evictd.yaml", []byte(file))
	for _, fault := range faultsIn(t, err) {
		if goWords(fault) && !goWords(file) {
			t.Errorf("words of Go: %s", fault)
		}
		parts := faultParts.FindStringSubmatch(fault)
		if parts == nil || strings.Contains(fault, "\\") || strings.Contains(file, "kind: ConfigMap") {
			continue
		}
		path := steps.FindAllStringSubmatch(parts[1], -1)
		for _, advice := range toWrite.FindAllStringSubmatch(parts[2], -1) {
			last := path[len(path)-1]
			if strings.HasPrefix(parts[2], "Unsupported value: "+strconv.Quote(last[1]+last[2])) { // a key
				followed(t, file, fault, parts[1], func(all map[string]any) { rename(all, path, strings.Trim(advice[1], `"`)) })
				continue
			}
			var value any
			must.Succeed(t, yaml.Unmarshal([]byte(advice[1]), &value))
			followed(t, file, fault, parts[1], func(all map[string]any) { change(all, path, func(any) any { return value }) })
		}
		for _, advice := range toRename.FindAllStringSubmatch(parts[2], -1) {
			followed(t, file, fault, parts[1], func(all map[string]any) { rename(all, path, advice[1]) })
		}
		if toRemove.MatchString(parts[2]) {
			followed(t, file, fault, parts[1], func(all map[string]any) {
				rename(all, path, "")
				if strings.Contains(parts[2], "and its grace period") {
					rename(all, append([][]string{{"", "", "evictionSoftGracePeriod"}}, path[1:]...), "")
				}
			})
		}
	}
}

// followed checks a file after a change that a fault advises.
func followed(t *testing.T, file, fault, field string, does func(map[string]any)) {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal([]byte(file), &all); err != nil {
		t.Fatalf("%s: %v", fault, err)
	}
	does(all)
	changed, err := yaml.Marshal(all)
	must.Succeed(t, err)
	if _, err = Parse(changed); err == nil {
		return
	}
	for _, left := range faultsIn(t, err) {
		if strings.HasPrefix(left, field+": ") {
			t.Errorf("%s\nis followed, and gives\n%s\nof\n%s", fault, left, changed)
		}
	}
}

// change gives what is at a path another value, and makes the maps above it that are missing.
func change(all any, path [][]string, to func(before any) any) any {
	if len(path) == 0 {
		return to(all)
	}
	name := path[0][1] + path[0][2]
	if list, is := all.([]any); is {
		i, _ := strconv.Atoi(name)
		list[i] = change(list[i], path[1:], to)
		return list
	}
	values, is := all.(map[string]any)
	if !is {
		values = map[string]any{}
	}
	values[name] = change(values[name], path[1:], to)
	return values
}

// rename gives what is at a path another name, or removes it.
func rename(all any, path [][]string, to string) {
	last := len(path) - 1
	name := path[last][1] + path[last][2]
	change(all, path[:last], func(in any) any {
		switch in := in.(type) {
		case []any:
			i, _ := strconv.Atoi(name)
			return slices.Delete(in, i, i+1)
		case map[string]any:
			if to != "" {
				in[to] = in[name]
			}
			delete(in, name)
		}
		return in
	})
}
