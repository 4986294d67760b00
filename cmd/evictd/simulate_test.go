package main

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// played plays a scenario of the repository.
func played(t *testing.T, name string, args ...string) (printed string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr := call(t, append([]string{"simulate", "../../examples/scenarios/" + name + ".yaml"}, args...)...)
		if code != exitFine || stderr != "" {
			t.Errorf("exit %d, %s", code, stderr)
		}
		printed = stdout
	})
	return printed
}

// The README's story is what evictd prints.
func TestReadmeShowsAScenario(t *testing.T) {
	t.Parallel()
	if want := readFile(t, "testdata/simulate/reserved.txt"); !strings.Contains(readDoc(t, "README.md"), "--compare kubelet\n"+want+"```") {
		t.Errorf("README.md does not hold:\n%s", want)
	}
}

// What happens in each scenario of the repository, by evictd and by the kubelet alone, is what the files say.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/scenarios/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, "testdata/simulate/"+name+".txt", played(t, name, "--compare", "kubelet"))
		})
	}
	t.Run("for machines", func(t *testing.T) {
		t.Parallel()
		compare(t, "testdata/simulate/leak.jsonl", played(t, "leak", "-o", "json"))
	})
}
