package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The file VERSION is the version of the image, the manifest, the chart and the Dockerfile;
// TestMakeImageTwice asks the binary.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	version := version(t)
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(version) {
		t.Fatalf("VERSION is %q", version)
	}
	for place, pattern := range map[string]string{
		"deploy/daemonset.yaml image":               `(?m)^ +image: \S+:(\S+)$`,
		"deploy/chart/evictd/Chart.yaml appVersion": `(?m)^appVersion: "?([^"\s]+)`,
		"deploy/chart/evictd/Chart.yaml version":    `(?m)^version: "?([^"\s]+)`,
		"Dockerfile VERSION":                        `(?m)^ARG VERSION=(\S+)$`,
		"docs/install.md newTag":                    `newTag: (\S+)\}`,
	} {
		file, _, _ := strings.Cut(place, " ")
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
		if found == nil || "v"+strings.TrimPrefix(found[1], "v") != version {
			t.Errorf("%s is %q, VERSION has %s: run 'make generate'", place, found, version)
		}
	}
	if commands := makeSays(t, "image"); strings.Count(commands, "--version "+version+" ") != 2 { // the archive and the layout
		t.Errorf("make image does not have --version %s twice:\n%s", version, commands)
	}
	if got := (release{version: version}).labels()["org.opencontainers.image.version"]; got != version {
		t.Errorf("the image's label is %q", got)
	}
}

// The manifest's image is the one that make image writes, and so is the chart's. Nothing can be
// pulled by that name.
func TestManifestNamesTheImage(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^ +image: (\S+)$`).FindAllStringSubmatch(read(t, "deploy/daemonset.yaml"), -1)
	if len(found) != 1 || !strings.Contains(makeSays(t, "image-archive"), "--ref '"+found[0][1]+"'") {
		t.Errorf("make image-archive does not write %q: run 'make generate'", found)
	}
	if chart := read(t, "deploy/chart/evictd/values.yaml"); !strings.Contains(chart, "\n  repository: "+imageName(t)+"\n") {
		t.Errorf("the chart does not have the repository %s: run 'make generate'", imageName(t))
	}
	registry, _, _ := strings.Cut(imageName(t), "/")
	if !strings.HasSuffix(registry, ".example") {
		t.Errorf("%s is not below .example, which RFC 2606 reserves: somebody may register it", registry)
	}
}

// The DaemonSet runs where the image does.
func TestManifestNamesTheArchitectures(t *testing.T) {
	t.Parallel()
	words := regexp.MustCompile(`linux/(\w+)=`).FindAllStringSubmatch(makeSays(t, "image-layout"), -1)
	var architectures []string
	for _, word := range words {
		architectures = append(architectures, word[1])
	}
	want := "values: [" + strings.Join(architectures, ", ") + "]"
	for _, file := range []string{"deploy/daemonset.yaml", "deploy/chart/evictd/values.yaml"} {
		_, after, _ := strings.Cut(read(t, file), "key: kubernetes.io/arch")
		if len(architectures) == 0 || !regexp.MustCompile(`^,?\s+operator: In,?\s+`+regexp.QuoteMeta(want)).MatchString(after) {
			t.Errorf("%s does not have kubernetes.io/arch In %s", file, want)
		}
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
	want := "COPY --from=build --chown=0:0 --chmod=0755 /out/evictd " + path + "\n" +
		"USER " + user + "\n" +
		"ENTRYPOINT [\"" + path + "\"]\n"
	if got := regexp.MustCompile(`(?m)^(LABEL (.*\\\n)*.*|ARG .*)\n`).ReplaceAllString(last, ""); got != want {
		t.Errorf("the last stage is\n%s\nwant\n%s", got, want)
	}
	for label := range (release{revision: "x"}).labels() {
		if !strings.Contains(last, label+"=") {
			t.Errorf("no label %s", label)
		}
	}
	flags := regexp.MustCompile(`go build (-buildvcs=false .*-s -w) -X main.version=`)
	dockerfile, makefile := flags.FindStringSubmatch(read(t, "Dockerfile")), flags.FindStringSubmatch(makeSays(t, "build"))
	if dockerfile == nil || makefile == nil || strings.ReplaceAll(dockerfile[1], `"`, "'") != makefile[1] {
		t.Errorf("the Dockerfile builds by %q, make by %q", dockerfile, makefile)
	}
	// make exports these to each command.
	if !strings.Contains(read(t, "Dockerfile"), "RUN CGO_ENABLED=0 GOFLAGS=-trimpath ") {
		t.Error("the Dockerfile does not build with make's CGO_ENABLED=0 and GOFLAGS=-trimpath")
	}
}

// version returns the content of the file VERSION.
func version(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(read(t, "VERSION"))
}

// imageName returns the name of the image in the manifest, without its tag.
func imageName(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ +image: (\S+):[^:/]+$`).FindStringSubmatch(read(t, "deploy/daemonset.yaml"))
	if found == nil {
		t.Fatal("deploy/daemonset.yaml names no image")
	}
	return found[1]
}

// makeSays returns the commands that make would run for a target.
func makeSays(t *testing.T, target string, variables ...string) string {
	t.Helper()
	return runMake(t, repository, nil, append([]string{"--dry-run", target}, variables...)...)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, path))
	must(t, err)
	return string(content)
}

// must ends the test where something failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
