package demo

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestThePlanSaysWhatIsBuilt counts the programs that are missing, and the scenes.
func TestThePlanSaysWhatIsBuilt(t *testing.T) {
	t.Parallel()
	plan, _ := exec.CommandContext(t.Context(), "./check", t.TempDir()+"/not/there/yet").CombinedOutput() // whether this machine is large enough is another matter
	for _, want := range []string{"builds a Kubernetes node from Go modules: 10 programs", "in seven scenes", "It needs 11 GiB of disk and 6 GiB of memory"} {
		if !strings.Contains(string(plan), want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	script, err := os.ReadFile("run")
	if scenes := bytes.Count(script, []byte("\nscene ")); err != nil || scenes != 7 {
		t.Errorf("the demo has %d scenes: %v", scenes, err)
	}
}
