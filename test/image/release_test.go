package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/image/internal/program"
)

// The file VERSION is the version of the binary, the image, the manifest and the chart.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	version := strings.TrimSpace(read(t, "VERSION"))
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(version) {
		t.Fatalf("VERSION is %q", version)
	}
	for file, pattern := range map[string]string{
		"deploy/daemonset.yaml":          `(?m)^ +image: \S+:(\S+)$`,
		"deploy/chart/evictd/Chart.yaml": `(?m)^appVersion: "?([^"\s]+)`,
		"Dockerfile":                     `(?m)^ARG VERSION=(\S+)$`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s: no version", file)
		}
		for _, match := range found {
			if match[1] != version {
				t.Errorf("%s has %s, VERSION has %s", file, match[1], version)
			}
		}
	}
	commands := makeSays(t, "image")
	for _, want := range []string{"-X main.version=" + version + " ", "--version " + version + " "} {
		if strings.Count(commands, want) != 2 { // for the archive and for the layout
			t.Errorf("make image does not have %q twice:\n%s", want, commands)
		}
	}
	if got := (program.Release{Version: version}).Labels()["org.opencontainers.image.version"]; got != version {
		t.Errorf("the image's label is %q", got)
	}
}

// The manifest's image is the one that make image writes.
func TestManifestNamesTheImage(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^ +image: (\S+)$`).FindStringSubmatch(read(t, "deploy/daemonset.yaml"))
	if found == nil || !strings.Contains(makeSays(t, "image-archive"), "--ref '"+found[1]+"'") {
		t.Errorf("make image-archive does not write %q", found)
	}
}

// IMAGE_TAG is a tag of the image's name, or a whole name.
func TestImageTag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, variables, want string }{
		{"image-archive", "IMAGE_TAG=v9", "/evictd:v9'"},
		{"image-archive", "IMAGE_TAG=registry.example:5000/a/b:v9", "--ref 'registry.example:5000/a/b:v9'"},
		{"image-archive", "IMAGE_TAG=evictd:v9", "--ref 'evictd:v9'"},
		{"image-push", "IMAGE_TAG=registry.example:5000/a/b:v9", "--ref 'registry.example:5000/a/b:v9'"},
		{"image-push", "IMAGE_TAG=v9 REGISTRY=registry.example:5000/a/b", "--ref 'registry.example:5000/a/b:v9'"},
	} {
		if got := makeSays(t, c.target, strings.Fields(c.variables)...); !strings.Contains(got, c.want) {
			t.Errorf("make %s %s does not have %s:\n%s", c.target, c.variables, c.want, got)
		}
	}
}

// The Dockerfile gives the file system and the configuration that the packer gives: one file,
// its path, the user and the entrypoint, by a build with the same flags.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	_, last, found := strings.Cut(read(t, "Dockerfile"), "\nFROM scratch\n")
	if !found {
		t.Fatal("the last stage is not from scratch")
	}
	want := "COPY --from=build --chown=0:0 --chmod=0755 /out/evictd " + program.Path + "\n" +
		"USER " + program.User + "\n" +
		"ENTRYPOINT [\"" + program.Path + "\"]\n"
	if got := regexp.MustCompile(`(?m)^(LABEL (.*\\\n)*.*|ARG .*)\n`).ReplaceAllString(last, ""); got != want {
		t.Errorf("the last stage is\n%s\nwant\n%s", got, want)
	}
	for label := range (program.Release{Revision: "x"}).Labels() {
		if !strings.Contains(last, label+"=") {
			t.Errorf("no label %s", label)
		}
	}
	flags := regexp.MustCompile(`go build (-trimpath .*-s -w) -X main.version=`)
	dockerfile, makefile := flags.FindStringSubmatch(read(t, "Dockerfile")), flags.FindStringSubmatch(makeSays(t, "build"))
	if dockerfile == nil || makefile == nil || strings.ReplaceAll(dockerfile[1], `"`, "'") != makefile[1] {
		t.Errorf("the Dockerfile builds by %q, make by %q", dockerfile, makefile)
	}
}

// makeSays returns the commands that make would run for a target.
func makeSays(t *testing.T, target string, variables ...string) string {
	t.Helper()
	command := exec.Command("make", append([]string{"--no-print-directory", "--dry-run", "-C", "../..", target}, variables...)...)
	command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("make --dry-run %s: %v\n%s", target, err, output)
	}
	return string(output)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
