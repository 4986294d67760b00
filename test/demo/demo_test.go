package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestThePictureHasEveryLineAtItsTime: long lines are wrapped, pauses are shortened, and the markup of a
// message does not end the text.
func TestThePictureHasEveryLineAtItsTime(t *testing.T) {
	t.Parallel()
	var shown bytes.Buffer
	d := terminal{started: time.Now(), to: &shown}
	d.say("first <&> title")
	d.show("output\n  of a tool  \n" + strings.Repeat("word ", 40))
	for i := range d.kept {
		d.kept[i].at = time.Duration(i) * time.Minute
	}
	lines, length := d.paced()
	if want := longestPause*time.Duration(len(d.kept)-1) + endStays; length != want {
		t.Errorf("it plays for %v, want %v", length, want)
	}
	if len(lines) != len(d.kept)+1 {
		t.Errorf("%d lines, want one wrapped: %+v", len(lines), lines)
	}
	var texts []string
	decoder := xml.NewDecoder(bytes.NewReader(d.picture()))
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
			inText = token.Name.Local == "text"
			if inText {
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
	for i, line := range lines {
		if len(line.text) > columns {
			t.Errorf("line %d has %d columns: %q", i, len(line.text), line.text)
		}
		if i >= len(texts) || texts[i] != line.text {
			t.Fatalf("the picture has the texts %q, want line %d to be %q", texts, i, line.text)
		}
	}
	for _, want := range []string{"first <&> title\n", "         output\n           of a tool\n"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("the terminal shows %q, want %q in it", shown.String(), want)
		}
	}
}

// TestThePlanSaysWhatIsBuilt counts the programs that are missing.
func TestThePlanSaysWhatIsBuilt(t *testing.T) {
	t.Parallel()
	plan, _ := exec.CommandContext(t.Context(), "./check", t.TempDir()+"/not/there/yet").CombinedOutput() // whether this machine is large enough is another matter
	for _, want := range []string{"builds a Kubernetes node from Go modules: 10 programs", "in seven scenes", "It needs 11 GiB of disk and 6 GiB of memory"} {
		if !strings.Contains(string(plan), want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if n := len(scenes()) + 1; n != 7 {
		t.Errorf("there are %d scenes", n)
	}
}
