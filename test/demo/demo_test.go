package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestThePictureHasEveryLine: long lines are wrapped, and the markup of a message does not end the text.
func TestThePictureHasEveryLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "demo.svg")
	input := "[  0.0s] first <&> title\n         output\n  of a tool\n" + strings.Repeat("word ", 40) + "\n" + strings.Repeat("x", 120) + "\n"
	picture := exec.CommandContext(t.Context(), "./picture", file)
	picture.Stdin = strings.NewReader(input)
	if passed, err := picture.Output(); err != nil || string(passed) != input {
		t.Fatalf("it passes on %q: %v", passed, err)
	}
	svg, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for inText := false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if inText = token.Name.Local == "text"; inText {
				texts = append(texts, "")
			}
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				texts[len(texts)-1] += string(token)
			}
		}
	}
	want := []string{
		"[  0.0s] first <&> title", "         output", "  of a tool", strings.TrimRight(strings.Repeat("word ", 23), " "),
		"           " + strings.Repeat("word ", 17), strings.Repeat("x", 118), "           xx",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("the picture has the texts %q, want %q", texts, want)
	}
}

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
