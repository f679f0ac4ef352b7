"""A small file of each tracker's format. The two binary ones were written by the trackers' own libraries."""

from __future__ import annotations

import base64
import math
import zlib

# An event file of TensorBoard: train/loss every 10 steps of 130 ms, evaluations of 2.5 s every 40.
_TENSORBOARD = (
    "c-r$|fPjCKJmzu&X@@@{Hyx#TlZp~E^YmQHQu9izjDqyIbV^e5it~$-@)L_v^omP!a}$dy^~#GfOHzyUQbDTX(=u~X;~^qEXLzP6K+V;ByE1^&"
    "*f<z$t^k*oFqa?~R|&{;{ha*bVo~qNISwD!HO$b2syF{1&w#96hD(Y|7^*%su_!MyFFn2}u_RSAU#Qv2zoq0bibZK@%ODy>Ff0<^-tAC%{--pG"
    "MM&!LTlDVDKNO2*&io0{D2HK@rE9gro;AF_C>9~9$7>Pi?Q=aS7M(fc;|SKMfnm|5{A35U3;WNaScIe=uSM<Z4zJ~*8UwvuB!C*<z%&YR32<?y"
    "mL=vuJ#;P8;ZN+H2qmcU3PIby$jU{zgt>UY%8N?#N-}d(MHv_r92&k%h(+<q|Nr(*U>!ynKKbP6?=a)I`YaTmAgRaelW&5xZYUNR8Bd02w85~5"
    "PuI@j{hfM66pN75<F)7sM~fGVMX71eAR65;EPA<J-(kz=M%2`Xq#mzDE*~0DeKcdHr88J#0ER_g)yfX_A%RjT79pv}Ymxl@c4?GEFk|LTm`1cj"
    "u<@a$gUMALJCsC#q#S!9nDXm`HHuG8pV4sv>xjbe$qqS5hlh2)L{NN!q#mzNew|RBf@0CX|Md`!DHs;XMhQ4rZYirku?R^$UW-EF6{1iqGBmyn"
    "(U^x}(ZshL4j11md7@Z^q#mzDy029GQ7lSHQ*#AttiZ5n<q{@`*Qv^hC>9~9$7@l<58e+bi6ABI7)&EtBH-udbhsIz`w}G)ASuV52%em8=K=sN"
    "g8s<"
)
# A run of W&B with a config as nanoGPT's: iter and train/loss every 10 steps of 130 ms.
_WANDB = (
    "c-no`yKmG$5C`D%JqTG2i5O8OAcZ0zie;aEASybj=xC5EbC}@ZvoB|#h!CPUi2{mLwA3jg3i<$wgec)(fDRf8S`aWk0t$29b?5nw_gk-4bLqy~"
    "l~1o*<>i;JHd@Y8XPqo0Tk&v|C1-DvB|>h+)!=SarVo;-)8=AU%8J3gza>wRRkFN3j&G+)UPbX>Fd0s=xJrvWDyw8vP8~<VSBt}VD@v<m426zh"
    "?BwZ3-?EnDZV=*j>pJu?;<}_7$7y~sE6Tc2Q%(AAJA<^xC}W%)b9=LOXYD84qtSShSLqP8(&5x6%PxuP*Rq0tm^yv#vp)}n*LHUIM?mJV$N|~r"
    "jGX%4Jfdh2=+Mk^#7fG{EQAkVtbN9;Xkw-3aWg9r3;kvm!k^o#=P@hiSxG}-V<loW^~@}UXPzB@gIU$YYAt;;s}Sqa(9A;kR&?)URyVOi2FlE8"
    "#0FHDSqPuJyV}F7H_r+h`rLApJ;a7^?Tsvij~(9K1hzQD`c15_v}b00vUHg3az+EATZdnte^|k8(Bx{ZET<e`S5R(tA-uzW71#}%Tp0?>F^AZd"
    "RGD1}x6ggKP=dP&YaX~A&YEDMHHQ2D;Cjj+Sy^UP9e(_=zc(lICYj67CUY!%mT^^w-}kP+pOZzC%oLXvSzy_>OsqQm4Uv<hA^"
)


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def _loss(step: int) -> float:
    return round(1.5 + 4 * math.exp(-step / 60), 4)


def _lightning() -> str:
    lines = ["epoch,lr-AdamW,step,train_loss_step,val_loss"]
    for step in range(9, 129, 10):
        lines.append(f"{step // 50},0.001,{step},{_loss(step)},")
        if step % 40 == 39:
            lines.append(f"{step // 50},,{step},,{_loss(step) + 0.1}")
    return "".join(line + "\n" for line in lines)


def _chart() -> str:
    names = [f"{run} - train/loss{part}" for run in ("brisk-pond-1", "calm-hill-2") for part in ("", "__MIN", "__MAX")]
    lines = [",".join(f'"{name}"' for name in ("Step", *names))]
    for step in range(0, 120, 10):
        values = [str(_loss(step))] * 3 + ([str(_loss(step) + 0.2)] * 3 if step < 60 else [""] * 3)
        lines.append(",".join(f'"{value}"' for value in (step, *values)))
    return "".join(line + "\n" for line in lines)


EXAMPLES: dict[str, str | bytes] = {
    "lightning": _lightning(),
    "wandb_csv": _chart(),
    "tensorboard": _unpacked(_TENSORBOARD),
    "wandb": _unpacked(_WANDB),
}
