package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// platforms are those that the command is built for.
var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

const commandDir = "cmd/askback"

// build builds the command for each platform, with an SBOM, and then the checksums of all.
func (r *release) build(ctx context.Context, work string) error {
	i := slices.IndexFunc(r.modules, func(m *module) bool { return m.dir == commandDir })
	if i < 0 {
		return fmt.Errorf("there is no module in %s", commandDir)
	}
	if !r.dry {
		if err := os.Mkdir(r.out, 0o755); err != nil {
			return fmt.Errorf("-out: %w: remove what an earlier release left", err)
		}
	}
	var built []string
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		name := fmt.Sprintf("%s_%s_%s_%s", path.Base(commandDir), r.version, goos, goarch)
		program := name
		if goos == "windows" {
			program += ".exe"
		}
		if r.dry {
			fmt.Fprintf(r.say, "would build %s and %s.cdx.json\n", program, name)
			continue
		}
		fmt.Fprintln(r.say, "building", program)
		// What is built in the workspace has other versions of dependencies than what users install.
		gopath := filepath.Join(work, name)
		environment := append(r.environment(), "GOPATH="+gopath, "GOBIN=", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		install := []string{"install", "-trimpath", r.modules[i].path + "@" + r.version}
		if _, err := command(ctx, work, environment, "go", install...); err != nil {
			return err
		}
		made, err := filepath.Glob(filepath.Join(gopath, "bin", "*"))
		if nested, _ := filepath.Glob(filepath.Join(gopath, "bin", goos+"_"+goarch, "*")); len(nested) > 0 {
			made = nested // Go keeps the programs of other platforms apart
		}
		if err != nil || len(made) != 1 {
			return errors.Join(err, fmt.Errorf("%s: go install made %q", platform, made))
		}
		data, err := os.ReadFile(made[0])
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, program), data, 0o755); err != nil {
			return err
		}
		if err := writeSBOM(filepath.Join(r.out, program), filepath.Join(r.out, name+".cdx.json")); err != nil {
			return err
		}
		built = append(built, program, name+".cdx.json")
	}
	if r.dry {
		return nil
	}
	if err := os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte(r.notes), 0o644); err != nil {
		return err
	}
	return writeChecksums(r.out, built)
}

// writeChecksums writes SHA256SUMS, which 'sha256sum --check' reads.
func writeChecksums(dir string, files []string) error {
	var sums strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// writeSBOM writes which modules a program was built from, as the go command has recorded it in the program. It has no
// time and no random number, so that the same program has the same SBOM.
func writeSBOM(program, file string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	component := func(kind cdx.ComponentType, name, version string) cdx.Component {
		purl := "pkg:golang/" + name + "@" + version
		return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl}
	}
	main := component(cdx.ComponentTypeApplication, info.Main.Path, info.Main.Version)
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(data))}}
	var properties []cdx.Property
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &properties

	components := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			return fmt.Errorf("%s was built with a replacement of %s", program, dep.Path)
		}
		components = append(components, component(cdx.ComponentTypeLibrary, dep.Path, dep.Version))
	}
	var references []string
	for _, c := range components {
		references = append(references, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}

	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom), out.Close())
}
