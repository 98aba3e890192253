import re

import pytest

from rankbeat_images import archive, places, recipes

IMAGES = places.REPOSITORY / "dev/images"


def dockerfile(name):
    return (IMAGES / f"{name}.Dockerfile").read_text()


def parts(name, kind):
    return [layer for layer in recipes.RECIPES[name].layers if isinstance(layer, kind)]


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_layers_that_change_lie_above_those_that_do_not(name):
    layers = recipes.RECIPES[name].layers

    assert layers[0] == recipes.PythonRoot()
    assert [recipes.is_stable(layer) for layer in layers] == sorted(map(recipes.is_stable, layers), reverse=True)


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_a_dockerfile_starts_its_containers_like_the_written_image(name):
    settings = recipes.RECIPES[name].settings

    text = dockerfile(name)

    pythonpath = re.search(r"PYTHONPATH=(\S+)", text)
    assert (pythonpath and pythonpath[1]) == dict(settings.environment).get("PYTHONPATH")
    assert f"\nUSER {archive.USER}\n" in text
    assert f"\nWORKDIR {settings.working_folder}\n" in text
    assert re.findall(r'ENTRYPOINT \["(.*)"\]', text) == list(settings.entrypoint)


@pytest.mark.parametrize("name", ["operator", "node", "aggregator"])
def test_a_dockerfile_holds_the_packages_of_the_written_image(name):
    text = dockerfile(name)

    [locked], [own] = parts(name, recipes.LockedPackages), parts(name, recipes.OwnPackages)

    assert tuple(re.findall(r"-r /(\S+)", text)) == locked.locks
    assert tuple(re.findall(r"^COPY (\S+) /opt/rankbeat/", text, re.MULTILINE)) == own.packages


def test_the_trainer_leaves_out_the_same_parts_of_mindspore_either_way():
    assert set(recipes.MINDSPORE.leave_out) <= set(dockerfile("trainer").split())


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.Dockerfile")), ids=lambda path: path.stem)
def test_base_images_are_named_without_a_registry(path):
    bases = re.findall(r"^FROM (\S+)", path.read_text(), re.MULTILINE)

    assert bases
    assert not [base for base in bases if "/" in base or ":" not in base]


@pytest.mark.parametrize("name", ["trainer", "trainer-base"])
def test_a_trainer_finds_its_packages_by_the_image_alone_and_holds_nothing_of_ours(name):
    recipe = recipes.RECIPES[name]

    assert dict(recipe.settings.environment)["PYTHONPATH"] == recipes.SITE
    assert parts(name, recipes.OwnPackages) == []
    for source, _ in recipes.TRAINER_FILES.files:
        assert "rankbeat" not in (places.REPOSITORY / source).read_text().lower()
