"""The releases that can be downloaded: where they are, at which revision, and what their files must hold."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownRelease:
    """A release on the Hugging Face Hub at one commit."""

    repository: str
    revision: str
    sha256: Mapping[str, str]
    """By file name, in hexadecimal."""
    unpinned: tuple[str, ...] = ("generation_config.json",)
    """Files of the release whose sha256 is not known here: they are checked by the Hub's own metadata."""


_SHARED = {
    "joint_schema_model.py": "0e304cf7c6500e8bb59bef7e2afd2c6373f82596dfb3b57d1aa93c175e2dc3a3",
    "processor_config.json": "d89ef49ce9cd37fbf510158e13c1ef063d9286411c1ec9049932dbe0487143b1",
    "tokenizer.json": "06b9509352d2af50381ab2247e083b80d32d5c0aba91c272ca9ff729b6a0e523",
    "tokenizer_config.json": "91a08f825d370d085d692e04cf117cdd7faad7bf18e996f1e6031b6dab03db72",
}


def _shards(*sha256: str) -> dict[str, str]:
    return {f"model-{i:05}-of-{len(sha256):05}.safetensors": digest for i, digest in enumerate(sha256, start=1)}


RELEASES = {
    "clef-flash": KnownRelease(
        repository="Cloudflare/clef-flash",
        revision="17f0b0ad64efb65d273590632833508766b2aae6",
        sha256=_SHARED
        | _shards(
            "8b45a8e968141cdcc58fb71c9adfc258e2c77b5f062bc636c1fd5bc5d916b565",
            "7590856c713eed844a2dcf48e6c43c4de165b788bc3f80e328311183cdbc7db8",
            "e6eac2467952c33361ed7dcb3c7959d1086bbe57201cd3749c3d769fdc17fe63",
            "9fcecc6556b39171238373a465f409794b7f821fb4cd1e6459e3a9c0fe317af7",
        )
        | {
            "chat_template.jinja": "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715",
            "config.json": "66f87f6fb2616b46604daf2a9c67ddc87938296d07156efa34d59b5be49e3238",
            "joint_head.safetensors": "19cdcec8c81dc9212be320fff47462ab342fbc1278be4368fb3da71241cf5ba0",
            "joint_head_config.json": "77efe959a38b5b17b241543e129e695f3c77465ece55a25985279bd8176279a0",
            "model.safetensors.index.json": "941305ff9f77551e145a6cea976ef456cd5cb208cbece99f168376c752fcf96c",
        },
    ),
    "clef": KnownRelease(
        repository="Cloudflare/clef",
        revision="2f3de3dd85f379784083b0814d997ab627200f0c",
        sha256=_SHARED
        | _shards(
            "54d83c1d36631de231876217a8e0c2483eccee8746369a482b79442bdfc5d958",
            "464086af08be8e2ec14960a4dcff083ebc39974ade00d79d35497385f960ab3a",
            "092212d3a02fafacd6424723eda59d60e5282d2068d68f0e37cb891f63bbb658",
            "d06ff197668c782145fafa74bba61bbc296fb27e39afb15fd522918ce3514dc5",
            "cc693b8829614a72e0c2be303fb290cf05dbb4d7ded872a817b97bb222a78427",
            "e7cce15da2443cb8b84aaed66a9a71f0c87dc9d043f83b5f58f4a89f64ba60ad",
            "75fc7e76b57d5d17a5d85fff3e879d07dd33edc885a8ee04ad437a899bcd5307",
            "189b15cb6b1af48d5f118951446e15639bfeaf76081d5f20aed1f1b4253afe1d",
            "8101e2664bb14684fc7051f2e1f84903dbdf5489b17cae3212ac08a0af744a60",
            "a8e69016a1a8dab1c9ce8dd151c0d3224412ab864cf06d3a5e2b8a5775cfdfb8",
            "b328d21c36ab384696e40a30ac86a95aaf6dd82da89438ba009cb97d87c1d6b9",
            "7505eed910a84ea18e66953572476f8a8a6a6ef54192a6643d6e9cd21a3bb978",
        )
        | {
            "chat_template.jinja": "c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041",
            "config.json": "c42e88892bd3fd84e8276b2ad90df58c1c3b797676ea161035006a72ad468c58",
            "joint_head.safetensors": "a010ac04f078e699988e4049cbea5e62c962393f59fec366640b64e8d69a4953",
            "joint_head_config.json": "890be585d75b981201eb96a35f98a9967afe37bc8d220cfdea2e72d56507534f",
            "model.safetensors.index.json": "a600c6626eb1eb653a3f078ab3dd1c7a8fab2e71185c7ef3aa923a39aaa637be",
        },
    ),
}
